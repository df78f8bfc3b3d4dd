// The sampled product on a GPU: a warp takes runs of consecutive nonzeros, 32 at a time, whatever rows they are in, so
// that a long row is no more work for it than many short ones. Each lane finds the row and the column of one of the 32;
// then groups of T lanes take T of them each, U at once: U rows of Y are in flight, read by neighbouring lanes in
// vectors of 16 bytes, and the row of X, which neighbouring nonzeros mostly share, comes from the L1. The U sums of a
// group are added up together, which takes about as many shuffles as one of them alone.
//
// Values of two bytes are multiplied and summed in float32 and rounded once. The order of additions depends on k and on
// how the operands are aligned, not on the pattern and not on the run.
//
// At least m rows of X and n rows of Y are read once, the pattern once (4 bytes a nonzero and 4 a row), and s bytes a
// nonzero are written; where rows of Y miss the caches, each nonzero costs s k bytes more (s bytes a value).
#include <algorithm>
#include <bit>
#include <cstdint>

#include "device/runtime.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/sampled/sampled_product.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;

template <class Value>
struct sampled_view {
  int num_rows;
  int num_cols;
  std::int64_t nnz;
  int nnz_per_warp;  // a multiple of 32
  std::int64_t k;
  cuda::offsets_view indptr;
  const void* indices;
  bool wide_indices;
  const Value* X;
  std::int64_t X_leading;
  const Value* Y;
  std::int64_t Y_leading;
  Value* out;

  // -1 for what is no column: the arrays may have changed since they were checked.
  __device__ int column(std::int64_t j) const {
    const std::int64_t found = wide_indices ? __ldg(static_cast<const long long*>(indices) + j)
                                            : __ldg(static_cast<const std::int32_t*>(indices) + j);
    return found >= 0 && found < num_cols ? static_cast<int>(found) : -1;
  }
};

// The last row that begins at or before nonzero j, the same for the whole warp: 32 places are probed at once. Some row
// if the offsets are not those of a matrix.
__device__ __forceinline__ int row_of_warp(const cuda::offsets_view& indptr, int num_rows, std::int64_t j) {
  const int lane = static_cast<int>(cuda::lane_id());
  int first = 0;
  int end = num_rows;
  while (end - first > 1) {
    const int step = (end - first + 31) / 32;
    const std::int64_t probe = first + std::int64_t{lane} * step;
    const unsigned not_past = cuda::ballot(probe < end && indptr[probe] <= j);
    first += max(__popc(not_past) - 1, 0) * step;
    end = min(end - first, step) + first;
  }
  return first;
}

// The same for each lane, of which none is before row `first`: most are near it.
__device__ __forceinline__ int row_from(const cuda::offsets_view& indptr, int num_rows, int first, std::int64_t j) {
  const auto begins_by = [&](int step) { return step < num_rows - first && indptr[std::int64_t{first} + step] <= j; };
  int step = 1;
  while (step < 1 << 30 && begins_by(step)) {
    first += step;
    step *= 2;
  }
  for (step /= 2; step > 0; step /= 2) {
    if (begins_by(step)) first += step;
  }
  return first;
}

// V columns a lane, T lanes a group, U nonzeros at once.
template <class Value, int V, int T, int U>
__global__ void __launch_bounds__(threads_per_block) sampled_kernel(const sampled_view<Value> given) {
  using sum_type = cuda::sum_type_t<Value>;
  static_assert(U <= T && T % U == 0, "each of the first U lanes of a group stores a sum");
  const int lane = static_cast<int>(cuda::lane_id());
  const int lane_of_group = lane % T;
  const int first_of_group = lane - lane_of_group;  // of the 32 nonzeros
  const std::int64_t warp = (std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x) / 32;
  const std::int64_t begin = warp * given.nnz_per_warp;
  if (begin >= given.nnz) return;  // whole warps
  const std::int64_t end = min(begin + given.nnz_per_warp, given.nnz);
  int row_of_first = row_of_warp(given.indptr, given.num_rows, begin);
  for (std::int64_t window = begin; window < end; window += 32) {
    const std::int64_t mine = window + lane;
    const int row = row_from(given.indptr, given.num_rows, row_of_first, min(mine, end - 1));
    const int column = mine < end ? given.column(mine) : -1;
    row_of_first = cuda::from_lane(row, 31);
#pragma unroll 1
    for (int batch = 0; batch < T; batch += U) {
      int rows[U], columns[U];
#pragma unroll
      for (int u = 0; u < U; ++u) {
        rows[u] = cuda::from_lane(row, first_of_group + batch + u);
        columns[u] = cuda::from_lane(column, first_of_group + batch + u);
      }
      sum_type sums[U] = {};
      for (std::int64_t c = lane_of_group * V; c < given.k; c += T * V) {
        cuda::loaded_values<Value, V> y[U], x;
#pragma unroll
        for (int u = 0; u < U; ++u) {
          if (columns[u] >= 0) y[u].load_from(given.Y + columns[u] * given.Y_leading + c);
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
          if (u == 0 || rows[u] != rows[u - 1]) x.load_from(given.X + rows[u] * given.X_leading + c);
          if (columns[u] >= 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) sums[u] += x[v] * y[u][v];
          }
        }
      }
      sum_type sum = cuda::interleaved_reduce_scatter(sums, lane);
      sum = cuda::interleaved_sum<U, T>(sum);
      const std::int64_t place = window + first_of_group + batch + lane_of_group;
      if (lane_of_group < U && place < end) given.out[place] = cuda::narrow<Value>(sum);
    }
  }
}

// Nonzeros of a warp: many, so that looking for the first row is a small part of its work, but all multiprocessors get
// some.
int nonzeros_per_warp(std::int64_t nnz) {
  constexpr std::int64_t warps_wanted = 16384;  // some for every place of a large GPU
  return static_cast<int>(std::clamp<std::int64_t>(nnz / warps_wanted / 32 * 32, 32, 256));
}

template <class Value, int V, int T>
void launch(const sampled_view<Value>& given, cudaStream_t stream) {
  constexpr int U = T < 8 ? T : 8;
  const std::int64_t warps = (given.nnz + given.nnz_per_warp - 1) / given.nnz_per_warp;
  sampled_kernel<Value, V, T, U>
      <<<cuda::blocks_for(warps * 32, threads_per_block), threads_per_block, 0, stream>>>(given);
  cuda::check_launch("sampled_kernel");
}

template <int V, class Value>
void launch(const sampled_view<Value>& given, cudaStream_t stream) {
  const std::int64_t vectors = std::clamp<std::int64_t>((given.k + V - 1) / V, 4, 32);
  const auto lanes = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(vectors)));
  cuda::dispatch_constant<4, 8, 16, 32>(lanes, [&](auto threads) { launch<Value, V, threads>(given, stream); });
}

// Whether every row of X and Y lets a lane load `width` values at once.
template <class Value>
bool takes_vectors(const sampled_view<Value>& given, int width) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(given.X) | reinterpret_cast<std::uintptr_t>(given.Y);
  return addresses % (width * sizeof(Value)) == 0 && (given.X_leading | given.Y_leading | given.k) % width == 0;
}

}  // namespace

void sampled_product_cuda(const device_csr_arrays& pattern, std::int64_t nnz, const dense_view& X, const dense_view& Y,
                          value_type dtype, void* out, CUstream_st* stream) {
  if (nnz == 0 || pattern.num_rows == 0) return;
  cuda::dispatch_device_type(dtype, [&](auto value) {
    using Value = decltype(value);
    const sampled_view<Value> given{static_cast<int>(pattern.num_rows),
                                    static_cast<int>(pattern.num_cols),
                                    nnz,
                                    nonzeros_per_warp(nnz),
                                    X.num_cols,
                                    {pattern.indptr, pattern.wide_indptr},
                                    pattern.indices,
                                    pattern.wide_indices,
                                    static_cast<const Value*>(X.data),
                                    X.leading_dimension,
                                    static_cast<const Value*>(Y.data),
                                    Y.leading_dimension,
                                    static_cast<Value*>(out)};
    constexpr int widest = 16 / sizeof(Value);
    if (takes_vectors(given, widest)) {
      launch<widest>(given, stream);
    } else {
      launch<1>(given, stream);
    }
  });
}

}  // namespace warploom
