// The sampled product of float16 and bfloat16 on tensor cores, for rows of X and Y of at most 32 columns that begin on
// 16 bytes. Wider rows are as fast without.
//
// The instruction m16n8k16 multiplies 16 rows of X with the rows of Y of 8 nonzeros, and of its 128 sums 8 count: the
// arithmetic is free, and nothing has to be widened or added up across lanes. Four lanes, a quad, take four
// neighbouring nonzeros, one after the other: column g of the second operand is the row of Y of quad g, and rows g and
// 8 + g of the first are the rows of X of this nonzero and the one beside it, which are kept until they change. Which
// columns of X and Y make up the 16 of an instruction is free, as long as it is the same in both: a lane reads 8
// neighbouring ones. The sums of quad g are in one of its lanes in the end, which stores them.
//
// Sums are those of tensor cores, in float32, and rounded once. The order of additions depends on k alone.
#include "device/runtime.hpp"
#include "kernels/device/tensor_core.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/sampled/tensor_core.hpp"

namespace warploom::cuda::sampled {
namespace {

constexpr int lane_columns = 8;
constexpr int quad_columns = 4 * lane_columns;

using words = vector<unsigned, 4>;  // of a lane: 8 columns of a row

// `Whole`: k is 32, and not less.
template <class Value, bool Whole>
__global__ void __launch_bounds__(warps_per_block * 32) tensor_core_kernel(const product<Value> given) {
  const int quad = static_cast<int>(lane_id()) / 4, lane_of_quad = static_cast<int>(lane_id()) % 4;
  const bool has_columns = Whole || lane_of_quad * lane_columns < given.k;
  const char* const X = reinterpret_cast<const char*>(given.X + lane_of_quad * lane_columns);
  const char* const Y = reinterpret_cast<const char*>(given.Y + lane_of_quad * lane_columns);
  const auto load_row = [&](const char* operand, unsigned stride, int row, words& to) {
    const char* const from = operand + std::uint64_t{static_cast<unsigned>(row)} * stride;
    if (has_columns) to = load<unsigned, 4>(reinterpret_cast<const unsigned*>(from));
  };
  const run here(given);
  Value* const out = given.out + here.origin + quad * 4;
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % (4 * sizeof(Value)) == 0;
  words x[4] = {}, y[4] = {};  // of the quad's nonzeros
  int row_of_x[4] = {-1, -1, -1, -1};
  for_each_window(given, here, [&](int begin, int row, int column) {
    int rows[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      load_row(Y, given.Y_stride, from_lane(column, quad * 4 + i), y[i]);
      rows[i] = from_lane(row, quad * 4 + i);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (rows[i] == row_of_x[i] || (i % 2 == 1 && rows[i] == rows[i - 1])) continue;
      load_row(X, given.X_stride, rows[i], x[i]);
      row_of_x[i] = rows[i];
    }
    vector<Value, 4> mine;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const words &first = x[i / 2 * 2], &second = x[i / 2 * 2 + 1];
      float sums[4] = {};  // lane 4 g + t: columns 2 t and 2 t + 1 of rows g and 8 + g
#pragma unroll
      for (int w = 0; w < 4; w += 2) {
        const unsigned of_x[4] = {first.lane[w], second.lane[w], first.lane[w + 1], second.lane[w + 1]};
        const unsigned of_y[2] = {y[i].lane[w], y[i].lane[w + 1]};
        multiply_add<Value>(sums, of_x, of_y);
      }
      const bool is_of_first = i % 2 == 0 || rows[i] == rows[i - 1];
      const float even = is_of_first ? sums[0] : sums[2], odd = is_of_first ? sums[1] : sums[3];
      mine.lane[i] = narrow<Value>(quad % 2 == 0 ? even : odd);
    }
    if (lane_of_quad != quad / 2) return;
    if (aligned && begin + window_length <= here.end) {
      store_streaming(out + begin, mine);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (begin + quad * 4 + i < here.end) out[begin + i] = mine.lane[i];
      }
    }
  });
}

template <class Value>
bool run_for(const product<Value>& given, cudaStream_t stream) {
  if (given.k > quad_columns || !takes_vectors(given, lane_columns)) return false;
  if (device_attribute(cudaDevAttrComputeCapabilityMajor) < 8) return false;
  const auto kernel = given.k == quad_columns ? tensor_core_kernel<Value, true> : tensor_core_kernel<Value, false>;
  kernel<<<blocks_for(given.nnz, given.by.run_length), warps_per_block * 32, 0, stream>>>(given);
  check_launch("tensor_core_kernel");
  return true;
}

}  // namespace

bool run_on_tensor_cores(const product<__half>& given, cudaStream_t stream) { return run_for(given, stream); }
bool run_on_tensor_cores(const product<__nv_bfloat16>& given, cudaStream_t stream) { return run_for(given, stream); }

}  // namespace warploom::cuda::sampled
