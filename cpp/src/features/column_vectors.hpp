// Features of column vectors: what host and GPU share.
//
// On a GPU each nonzero finds out by itself what it is in its vectors, by searches in the other rows of its window:
// plain templates over how memory is read, so that the host can run them too.
#pragma once

#include <cstdint>
#include <vector>

#include "features/row_segment.hpp"
#include "warploom/features.hpp"

namespace warploom {

class device_csr;

// Of windows of one height.
struct vector_counts {
  std::int64_t vectors = 0;
  std::int64_t single = 0;             // vectors of one nonzero
  std::int64_t nonzeros_of_dense = 0;  // nonzeros in windows of at most one vector for every third
};

// Whether a window counts as dense.
WARPLOOM_HOST_DEVICE bool is_dense_window(std::int64_t vectors, std::int64_t nonzeros) {
  return 3 * vectors <= nonzeros;
}

// The values in the order of the names, from the counts for windows of 8 and of 16 rows.
std::vector<double> column_vector_features(const vector_counts& of_8, const vector_counts& of_16, std::int64_t nnz);

// Defined in column_vectors.cu. On the matrix's stream; the matrix must stay until that is done.
pending_features start_cuda_column_vector_features(const device_csr& matrix);

// What a nonzero is in its vector of 8 rows and in that of 16: the first of it, and the only one.
struct vector_role {
  bool first_of_8 = false;
  bool single_of_8 = false;
  bool first_of_16 = false;
  bool single_of_16 = false;
};

// Whether row `other` has the column of nonzero j, which is `along` of the way through its own row. Columns of a row
// ascend.
template <class Offsets, class Columns>
WARPLOOM_HOST_DEVICE bool row_has_column(const Offsets& indptr, const Columns& columns, std::int64_t other, float along,
                                         std::int32_t column) {
  const std::int64_t begin = indptr[other];
  const std::int64_t end = indptr[other + 1];
  const std::int64_t guess = begin + static_cast<std::int64_t>(along * static_cast<float>(end - begin));
  const std::int64_t found = first_not_below(columns, begin, end, guess < end ? guess : end, column);
  return found < end && columns[found] == column;
}

// The role of nonzero j of `row`. Columns of a row ascend; entries may repeat.
template <class Offsets, class Columns>
WARPLOOM_HOST_DEVICE vector_role role_of_nonzero(const Offsets& indptr, const Columns& columns, std::int64_t num_rows,
                                                 std::int64_t row, std::int64_t j) {
  const std::int64_t row_begin = indptr[row];
  const std::int64_t row_end = indptr[row + 1];
  const std::int32_t column = columns[j];
  if (j > row_begin && columns[j - 1] == column) return {};
  const float along = static_cast<float>(j - row_begin) / static_cast<float>(row_end - row_begin);
  const auto is_in = [&](std::int64_t other) { return row_has_column(indptr, columns, other, along, column); };
  const std::int64_t half = row / 8 * 8;  // the first row of its window of 8
  for (std::int64_t other = row - 1; other >= half; --other) {
    if (is_in(other)) return {};
  }
  const std::int64_t half_end = half + 8 < num_rows ? half + 8 : num_rows;
  bool single = j + 1 == row_end || columns[j + 1] != column;
  for (std::int64_t other = row + 1; single && other < half_end; ++other) single = !is_in(other);
  vector_role found{true, single, true, single};
  if (half % 16 != 0) {  // the lower half of its window of 16
    for (std::int64_t other = half - 1; found.first_of_16 && other >= half - 8; --other) {
      found.first_of_16 = !is_in(other);
    }
    found.single_of_16 = single && found.first_of_16;
  } else {
    const std::int64_t end = half + 16 < num_rows ? half + 16 : num_rows;
    for (std::int64_t other = half + 8; found.single_of_16 && other < end; ++other) found.single_of_16 = !is_in(other);
  }
  return found;
}

}  // namespace warploom
