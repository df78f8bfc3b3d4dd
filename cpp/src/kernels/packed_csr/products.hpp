// What SpMV and SpMM with rows packed into warps share outside the GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/packed_csr/packed_csr.hpp"
#include "warploom/kernels/product.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

// Answer of unsupported_reason.
std::string packed_reason(const matrix_summary& matrix, const product_request& request);

template <class Value>
accumulator_t<Value> packed_lane_sum(const packed_csr& matrix, std::int64_t lane, const Value* x) {
  const std::int32_t* indices = matrix.indices.data() + lane * matrix.entries_per_lane;
  const Value* values = reinterpret_cast<const Value*>(matrix.data.data()) + lane * matrix.entries_per_lane;
  accumulator_t<Value> sum = 0;
  for (int i = 0; i < matrix.entries_per_lane && indices[i] >= 0; ++i) sum += values[i] * x[indices[i]];
  return sum;
}

// One column of a product: warps in parallel, the partial sums of cut rows are added in their order at the end.
template <class Value>
void multiply_packed(const packed_csr& matrix, const Value* x, Value* y) {
  std::vector<accumulator_t<Value>> partial(matrix.pieces.size());
  const std::int64_t per_warp = matrix.lanes_per_warp();
  constexpr std::int64_t warps_per_thread = 64;
  parallel_for(0, matrix.num_warps(), warps_per_thread, [&](std::int64_t begin, std::int64_t end) {
    accumulator_t<Value> sum = 0;
    for (std::int64_t lane = begin * per_warp; lane < end * per_warp; ++lane) {
      const std::uint32_t meaning = matrix.lanes[lane];
      if (meaning == packed_filler) continue;
      if (meaning & packed_head) sum = 0;
      sum += packed_lane_sum(matrix, lane, x);
      const std::uint32_t target = meaning & packed_target;
      if (meaning & packed_cut) {
        partial[target] = sum;
      } else {
        y[target] = Value(sum);  // written once for each lane of the row; the last time it is complete
      }
    }
  });
  for (const std::int32_t row : matrix.empty_rows) y[row] = Value(0);
  for (std::size_t first = 0; first < matrix.pieces.size();) {
    const std::int32_t row = matrix.pieces[first].row;
    accumulator_t<Value> sum = 0;
    for (; first < matrix.pieces.size() && matrix.pieces[first].row == row; ++first) sum += partial[first];
    y[row] = Value(sum);
  }
}

}  // namespace warploom
