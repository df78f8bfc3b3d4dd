// Compressed multi-row storage (Koza et al. 2014): CSR whose rows are grouped into strips of `height`.
//
// Entries are stored strip after strip; `strip_ptr` says where each strip starts. Every entry carries its row within
// the strip, either in an array of its own (the paper's RowInStrip, Sec. 3) or packed with its column into one word
// (Sec. 4), which limits the matrix to 16 rows a strip and 2^28 columns.
//
// The places of a strip are filled in one of three orders:
//   row by row, as in CSR (Sec. 3);
//   by column, entries of equal column row by row (Sec. 4, "sort_columns");
//   in groups of 32, one for each step of a warp. A group holds at most `modulo` entries of a row, in consecutive
//   places (Sec. 6.7). Its last places stay empty where the rows do not fill it.
// All three keep the strips, and all but the second keep the order of the entries within their row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

struct cmrs_options {
  int height = 8;  // rows of a strip: 1 to 16 packed, 1 to 256 otherwise
  bool packed = true;
  bool sort_columns = false;
  int modulo = 0;  // maximum number of entries of a row in a group: 1 to 32, or 0 for strips without groups
};

struct cmrs_matrix {
  static constexpr int row_bits = 4;  // of a packed word; the paper's CMRS_BITS
  static constexpr int group_size = 32;
  static constexpr std::uint32_t empty_word = 0xffffffffu;
  static constexpr std::int32_t empty_column = -1;

  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::int64_t num_entries = 0;
  value_type dtype = value_type::float32;
  cmrs_options options;
  std::vector<std::int64_t> strip_ptr{0};  // [number of strips + 1], the paper's StripPtr
  std::vector<std::uint32_t> words;        // packed: column * 16 + row in strip of each place, or empty_word
  std::vector<std::int32_t> indices;       // otherwise: column of each place, or empty_column
  std::vector<std::uint8_t> row_in_strip;  // otherwise: row in strip of each place
  std::vector<std::byte> data;             // value of each place

  std::int64_t nnz() const { return num_entries; }
  std::int64_t num_strips() const { return static_cast<std::int64_t>(strip_ptr.size()) - 1; }
  std::int64_t num_places() const { return strip_ptr.back(); }
  std::int64_t places() const { return num_places(); }
  std::size_t bytes() const;  // of the arrays
  std::vector<format_field> fields() const;
};

// Maximum number of columns that fit into packed words. Where places may be empty, one word stands for that.
std::int64_t cmrs_packed_columns(const cmrs_options& options);

// Number of places that the matrix takes with these options.
std::int64_t cmrs_places(const csr_pattern& matrix, const cmrs_options& options);

// Throws error_kind::parameter for options out of range or that exclude each other, and error_kind::index_overflow for
// more columns than packed words can name.
cmrs_matrix to_cmrs(const csr_view& matrix, const cmrs_options& options);
csr_matrix to_csr(const cmrs_matrix& matrix);

// Calls function(j, column, row in strip) for every entry from place `begin` to place `end`, in their order.
template <bool Packed, class Function>
void for_each_entry(const cmrs_matrix& matrix, std::int64_t begin, std::int64_t end, Function function) {
  for (std::int64_t j = begin; j < end; ++j) {
    if constexpr (Packed) {
      const std::uint32_t word = matrix.words[j];
      if (word == cmrs_matrix::empty_word && matrix.options.modulo > 0) continue;
      function(j, static_cast<std::int32_t>(word >> cmrs_matrix::row_bits), word % (1u << cmrs_matrix::row_bits));
    } else {
      const std::int32_t column = matrix.indices[j];
      if (column == cmrs_matrix::empty_column) continue;
      function(j, column, std::uint32_t{matrix.row_in_strip[j]});
    }
  }
}

}  // namespace warploom
