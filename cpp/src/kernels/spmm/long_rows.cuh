// Long rows of products whose rows are cut: a group of threads that added up hundreds of pieces would take longer for
// it than all others took to multiply them. Groups leave their pieces in the workspace, and another kernel adds them
// up, with a thread block for each row and few columns, or a warp where pieces are few.
//
// Device code only.
#pragma once

#include <cstdint>

#include "kernels/device/finish.cuh"
#include "kernels/device/rows.cuh"

namespace warploom::cuda {

// C with column c of row r at data[r * row_stride + c * column_stride].
template <class Value>
struct strided_result {
  Value* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

// Pieces that a group adds up itself, where each of its lanes for a column adds every `sharing`-th. Measured on an
// H200: another kernel takes 1 to 2 us.
constexpr int pieces_of_group(int sharing) { return 64 * sharing; }

// Enqueues the sums of long rows, if there are any, of a product of `k` columns that was enqueued before.
template <class Value>
void add_long_rows(const segments_view<Value>& segments, const strided_result<Value>& C, int k,
                   const finishing_values<Value>& by, cudaStream_t stream);

}  // namespace warploom::cuda
