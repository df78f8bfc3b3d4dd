// The sampled product on a GPU: a block takes a run of consecutive nonzeros, whatever rows they are in, so that a long
// row is no more work for it than many short ones. Its warps take windows of 32 of them in turn: neighbouring rows of
// the matrix are at work at the same time, and the rows of Y that they share come from the L1. Each lane finds the row
// and the column of one of the 32. Then groups of T lanes take T of them each, U at once: the lanes of a group read N
// vectors of a row of Y each, a cache line at a time, and keep those of the row of X until the row changes. The sums of
// eight nonzeros are added up together, which takes about as many shuffles as one of them alone. What the next window
// needs of the pattern is under way while the products of this one are formed.
//
// Values of two bytes are multiplied and summed in float32 and rounded once. The order of additions depends on k and on
// how the operands are aligned, not on the pattern and not on the run.
//
// At least m rows of X and n rows of Y are read once, the pattern once (4 bytes a nonzero and 4 a row), and s bytes a
// nonzero are written; where rows of Y miss the caches, each nonzero costs s k bytes more (s bytes a value).
#include <bit>
#include <cstdint>

#include "device/runtime.hpp"
#include "kernels/device/vector.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/sampled/sampled_product.hpp"
#include "kernels/sampled/tensor_core.hpp"
#include "kernels/sampled/windows.cuh"

namespace warploom {
namespace cuda::sampled {
namespace {

// V columns a vector, T lanes a group, N vectors a lane, U nonzeros at once.
template <class Value, int V, int T, int N, int U>
__global__ void __launch_bounds__(warps_per_block * 32) sampled_kernel(const product<Value> given) {
  using values_type = loaded_values<Value, V>;
  constexpr int summed_together = T < 8 ? T : 8;
  static_assert(summed_together % U == 0);
  const int lane = static_cast<int>(lane_id());
  const int lane_of_group = lane % T;
  const int first_of_group = lane - lane_of_group;  // of the 32 nonzeros
  const bool is_one_pass = given.k <= T * V * N;
  const run here(given);
  values_type x[N];
  int row_of_x = -1;
  for_each_window(given, here, [&](int begin, int row, int column) {
#pragma unroll 1
    for (int part = 0; part < T; part += summed_together) {
      sum_type_t<Value> sums[summed_together] = {};
      for (int first = 0; first == 0 || (!is_one_pass && first < given.k); first += T * V * N) {
        const int left = given.k - first - lane_of_group * V;
        const char* const X = reinterpret_cast<const char*>(given.X + first + lane_of_group * V);
        const char* const Y = reinterpret_cast<const char*>(given.Y + first + lane_of_group * V);
        const auto load_row = [&](const char* from, values_type(&values)[N]) {
#pragma unroll
          for (int n = 0; n < N; ++n) {
            if (n * T * V < left) values[n].load_from(reinterpret_cast<const Value*>(from) + n * T * V);
          }
        };
        if (!is_one_pass) row_of_x = -1;
#pragma unroll
        for (int batch = 0; batch < summed_together; batch += U) {
          values_type y[U][N];
#pragma unroll
          for (int u = 0; u < U; ++u) {
            const auto of_nonzero = static_cast<unsigned>(from_lane(column, first_of_group + part + batch + u));
            load_row(Y + std::uint64_t{of_nonzero} * given.Y_stride, y[u]);
          }
#pragma unroll
          for (int u = 0; u < U; ++u) {
            const int of_nonzero = from_lane(row, first_of_group + part + batch + u);
            if (of_nonzero != row_of_x)
              load_row(X + std::uint64_t{static_cast<unsigned>(of_nonzero)} * given.X_stride, x);
            row_of_x = of_nonzero;
#pragma unroll
            for (int n = 0; n < N; ++n) {
              if (n * T * V < left) {
#pragma unroll
                for (int v = 0; v < V; ++v) sums[batch + u] += x[n][v] * y[u][n][v];
              }
            }
          }
        }
      }
      auto sum = interleaved_reduce_scatter(sums, lane);
      sum = interleaved_sum<summed_together, T>(sum);
      const int place = begin + first_of_group + part + lane_of_group;
      if (lane_of_group < summed_together && place < here.end) given.out[here.origin + place] = narrow<Value>(sum);
    }
  });
}

template <class Value, int V, int T, int N, int U>
void launch(const product<Value>& given, cudaStream_t stream) {
  const unsigned blocks = blocks_for(given.nnz, given.by.run_length);
  sampled_kernel<Value, V, T, N, U><<<blocks, warps_per_block * 32, 0, stream>>>(given);
  check_launch("sampled_kernel");
}

// Few lanes a group, so that sums take few shuffles; N * U loads of Y in flight. What was fastest on an H200 for a
// 27-point grid, for random columns and for pruned weights, k = 32 and 128.
template <int V, class Value>
void launch_for_columns(const product<Value>& given, cudaStream_t stream) {
  const int vectors = (given.k + V - 1) / V;
  if constexpr (V * sizeof(Value) == 16) {
    if (vectors <= 4) return launch<Value, V, 4, 1, 2>(given, stream);
    if (vectors <= 8) return launch<Value, V, 4, 2, 2>(given, stream);
    if (vectors <= 16) return launch<Value, V, 8, 2, 2>(given, stream);
    launch<Value, V, 8, 4, sizeof(Value) == 8 ? 1 : 2>(given, stream);
  } else {
    if (vectors <= 4) return launch<Value, V, 4, 1, 4>(given, stream);
    if (vectors <= 8) return launch<Value, V, 8, 1, 4>(given, stream);
    if (vectors <= 64) return launch<Value, V, 32, 2, 2>(given, stream);
    launch<Value, V, 32, 4, 2>(given, stream);
  }
}

template <class Value>
void enqueue(const product<Value>& given, cudaStream_t stream) {
  constexpr int widest = 16 / sizeof(Value);
  if constexpr (sizeof(Value) == 2) {
    if (run_on_tensor_cores(given, stream)) return;
  }
  if (takes_vectors(given, widest)) return launch_for_columns<widest>(given, stream);
  if (sizeof(Value) == 2 && takes_vectors(given, 2))
    return launch_for_columns<sizeof(Value) == 2 ? 2 : 1>(given, stream);
  launch_for_columns<1>(given, stream);
}

}  // namespace
}  // namespace cuda::sampled

void sampled_product_cuda(const device_csr_arrays& pattern, std::int64_t nnz, const dense_view& X, const dense_view& Y,
                          value_type dtype, void* out, CUstream_st* stream) {
  if (nnz == 0 || pattern.num_rows == 0) return;
  cuda::dispatch_device_type(dtype, [&](auto value) {
    using Value = decltype(value);
    const auto bytes_of_row = [](const dense_view& operand, const char* name) {
      const std::int64_t bytes = operand.leading_dimension * static_cast<std::int64_t>(sizeof(Value));
      if (bytes < std::int64_t{1} << 32) return static_cast<unsigned>(bytes);
      throw error(error_kind::shape, name, -1, std::string(name) + " must have rows of less than 4 GiB");
    };
    const cuda::sampled::product<Value> given{static_cast<int>(pattern.num_rows),
                                              static_cast<int>(pattern.num_cols),
                                              nnz,
                                              static_cast<float>(pattern.num_rows) / static_cast<float>(nnz),
                                              cuda::sampled::choose_schedule(pattern.num_rows, nnz),
                                              static_cast<int>(X.num_cols),
                                              {pattern.indptr, pattern.wide_indptr},
                                              pattern.wide_indptr ? 8u : 4u,
                                              pattern.indices,
                                              pattern.wide_indices ? 8u : 4u,
                                              static_cast<const Value*>(X.data),
                                              bytes_of_row(X, "X"),
                                              static_cast<const Value*>(Y.data),
                                              bytes_of_row(Y, "Y"),
                                              static_cast<Value*>(out)};
    cuda::sampled::enqueue(given, stream);
  });
}

}  // namespace warploom
