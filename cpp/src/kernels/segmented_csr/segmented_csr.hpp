// CSR whose long rows are cut into segments of `segment_length` nonzeros (more where a row would have over 1,024
// segments), so that work is balanced and one giant row keeps the whole GPU busy.
//
// A row that fits into one segment writes its row of C directly. The segments of a longer row write partial sums,
// which are then added in segment order: the result never depends on which segment finished first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/csr/row_storage.hpp"
#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

inline constexpr int max_segments_per_row = 1024;

// The nonzeros begin .. begin + length of row `row` of C. Four int32, so that a GPU thread reads one with one load.
struct segment {
  std::int32_t row;
  std::int32_t begin;
  std::int32_t length;   // 0 for an empty row: the segments together write all of C
  std::int32_t partial;  // slot of the partial sum, or -1: the sum is written to C directly
};

// Row `row` of C is the sum of the partial sums first_partial .. first_partial + count, added in this order.
struct split_row {
  std::int32_t row;
  std::int32_t first_partial;
  std::int32_t count;
};

struct segmented_csr {
  std::int64_t num_rows = 0;  // of A and C
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  int segment_length = 0;
  bool longest_first = false;
  std::int64_t num_entries = 0;
  std::vector<segment> segments;
  std::vector<split_row> split_rows;
  std::int64_t num_partials = 0;
  const std::int32_t* indices = nullptr;
  const void* data = nullptr;
  std::shared_ptr<const csr_matrix> owner;  // of indices and data, unless they are the caller's

  std::int64_t nnz() const { return num_entries; }
  std::size_t bytes() const;  // bytes that the structure owns
  std::vector<format_field> fields() const;
};

// Every row of C gets at least one segment, also those that `rows` does not store. Segments come in the stored order
// of the rows, or by decreasing length (ties in stored order) if `longest_first`, so that long work starts early.
// Throws error_kind::index_overflow for 2^31 nonzeros or more.
segmented_csr to_segmented(const row_storage& rows, int segment_length, bool longest_first);

// The same with a copy of the entries, which it owns.
segmented_csr to_segmented(const csr_view& matrix, int segment_length, bool longest_first);

// In the caller's row order, entries in their stored order.
csr_matrix to_csr(const segmented_csr& matrix);

}  // namespace warploom
