// ELLPACK-ITPACK (Koza et al. 2014, Sec. 2.3; Bell and Garland 2009): every row is padded to the longest one, and the
// two num_rows x width arrays are stored column by column. A column index of -1 marks padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

struct ell_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  std::int64_t width = 0;
  std::int64_t num_entries = 0;
  std::vector<std::int32_t> indices;  // entry j of row i is at j * num_rows + i; -1 where padded
  std::vector<std::byte> data;        // 0 where padded

  std::int64_t nnz() const { return num_entries; }
  std::int64_t places() const { return num_rows * width; }
  std::size_t bytes() const;
  std::vector<format_field> fields() const;
};

// Whether this many places are acceptable for nnz nonzeros; tiny matrices may have more padding.
constexpr bool padding_is_acceptable(std::int64_t places, std::int64_t nnz) { return places <= 4 * nnz + 4096; }

std::int64_t longest_row(const csr_pattern& matrix);

// Throws error_kind::parameter if a row is longer than `max_width`, or, without one, if a format that stores `width`
// places of each row pads beyond reason.
void check_width(const csr_pattern& matrix, std::int64_t width, std::optional<std::int64_t> max_width,
                 const std::string& format);

// The same where the longest row is known.
void check_width(std::int64_t num_rows, std::int64_t nnz, std::int64_t longest, std::int64_t width,
                 std::optional<std::int64_t> max_width, const std::string& format);

// The first `width` entries of every row, and only those.
ell_matrix to_ell_of_width(const csr_view& matrix, std::int64_t width);

// Throws error_kind::parameter if a row is longer than `max_width`, or, without one, if there would be too much
// padding.
ell_matrix to_ell(const csr_view& matrix, std::optional<std::int64_t> max_width = std::nullopt);
csr_matrix to_csr(const ell_matrix& matrix);

}  // namespace warploom
