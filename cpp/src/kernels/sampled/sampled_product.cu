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

constexpr int warps_per_block = 4;

template <class Value>
struct sampled_view {
  int num_rows;
  int num_cols;
  std::int64_t nnz;
  int nnz_per_block;  // a multiple of 32 for each warp
  std::int64_t k;
  cuda::offsets_view indptr;
  const void* indices;
  bool wide_indices;
  const Value* X;
  std::int64_t X_stride;  // bytes from row to row
  const Value* Y;
  std::int64_t Y_stride;
  Value* out;
};

// A number of 32 or 64 bits as it was loaded. To widen or compare it is to wait for it, so both are done where it is
// used.
struct loaded_number {
  unsigned low = 0;
  unsigned high = 0;

  __device__ static loaded_number from(const void* numbers, bool wide, std::int64_t i) {
    const unsigned* const at = static_cast<const unsigned*>(numbers) + (wide ? 2 * i : i);
    loaded_number number;
    number.low = __ldg(at);
    if (wide) number.high = __ldg(at + 1);
    return number;
  }
  __device__ std::int64_t value() const { return static_cast<std::int64_t>(std::uint64_t{high} << 32 | low); }
};

// The last of the rows first .. end that begins at or before nonzero j, the same for the whole warp: 32 places are
// probed at once. Some row if the offsets are not those of a matrix.
__device__ __forceinline__ int row_of_warp(const cuda::offsets_view& indptr, int first, int end, std::int64_t j) {
  const int lane = static_cast<int>(cuda::lane_id());
  while (end - first > 1) {
    const int step = (end - first + 31) / 32;
    const std::int64_t probe = first + std::int64_t{lane} * step;
    const unsigned not_past = cuda::ballot(probe < end && indptr[probe] <= j);
    first += max(__popc(not_past) - 1, 0) * step;
    end = min(end - first, step) + first;
  }
  return first;
}

// The same for each lane, none of whose rows is before `first`: most are near it.
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

// 32 consecutive nonzeros, one for each lane.
struct sampled_window {
  int row;                    // of the first nonzero
  loaded_number next_indptr;  // where row `row` + lane ends
  loaded_number column;       // of the lane's nonzero

  template <class Value>
  __device__ static sampled_window load(const sampled_view<Value>& given, int row, std::int64_t j, bool is_nonzero) {
    sampled_window window{row, {~0u, ~0u >> 1}, {~0u, 0}};  // no end, so that no row is looked for; no column
    const std::int64_t next = std::int64_t{row} + cuda::lane_id() + 1;
    if (next < given.num_rows) {
      window.next_indptr = loaded_number::from(given.indptr.offsets, given.indptr.wide, next);
    }
    if (is_nonzero) window.column = loaded_number::from(given.indices, given.wide_indices, j);
    return window;
  }
  // Counted from nonzero `origin`.
  __device__ int end(std::int64_t origin) const {
    constexpr std::int64_t far = 1 << 30;
    return static_cast<int>(min(max(next_indptr.value() - origin, -far), far));
  }
  // -1 for what is no column: the arrays may have changed since they were checked.
  __device__ int column_below(int num_cols) const {
    return column.high == 0 && column.low < static_cast<unsigned>(num_cols) ? static_cast<int>(column.low) : -1;
  }
};

// The row of each lane's nonzero, number `mine` of the block: a search among the ends that the lanes hold. Beyond them,
// which takes rows without nonzeros, in the offsets.
template <class Value>
__device__ __forceinline__ int row_of_lane(const sampled_view<Value>& given, int first_row, int end, int mine,
                                           std::int64_t origin) {
  int passed = 0;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    if (cuda::from_lane(end, passed + step - 1) <= mine) passed += step;
  }
  if (passed < 31) return first_row + passed;
  return row_from(given.indptr, given.num_rows, first_row + passed, origin + mine);
}

// V columns a vector, T lanes a group, N vectors a lane, U nonzeros at once.
template <class Value, int V, int T, int N, int U>
__global__ void __launch_bounds__(warps_per_block * 32) sampled_kernel(const sampled_view<Value> given) {
  using sum_type = cuda::sum_type_t<Value>;
  using values_type = cuda::loaded_values<Value, V>;
  constexpr int summed_together = T < 8 ? T : 8;
  static_assert(summed_together % U == 0);
  const int lane = static_cast<int>(cuda::lane_id());
  const int lane_of_group = lane % T;
  const int first_of_group = lane - lane_of_group;  // of the 32 nonzeros
  const std::int64_t origin = std::int64_t{blockIdx.x} * given.nnz_per_block;
  const int length = static_cast<int>(min(static_cast<std::int64_t>(given.nnz_per_block), given.nnz - origin));
  int begin = static_cast<int>(threadIdx.x / 32) * 32;
  if (begin >= length) return;  // whole warps
  const auto load_window = [&](int row, int first) {
    return sampled_window::load(given, row, origin + first + lane, first + lane < length);
  };
  const bool is_one_pass = given.k <= T * V * N;
  values_type x[N];
  int row_of_x = -1;
  sampled_window next = load_window(row_of_warp(given.indptr, 0, given.num_rows, origin + begin), begin);
  for (; begin < length; begin += warps_per_block * 32) {
    const sampled_window window = next;
    const int end = window.end(origin);
    if (const int begin_of_next = begin + warps_per_block * 32; begin_of_next < length) {
      const unsigned passed = cuda::ballot(end <= begin_of_next);
      const int next_row = passed != cuda::whole_warp
                               ? window.row + __popc(passed)
                               : row_of_warp(given.indptr, window.row, given.num_rows, origin + begin_of_next);
      next = load_window(next_row, begin_of_next);
    }
    const int row = row_of_lane(given, window.row, end, min(begin + lane, length - 1), origin);
    const int column = window.column_below(given.num_cols);
#pragma unroll 1
    for (int part = 0; part < T; part += summed_together) {
      sum_type sums[summed_together] = {};
      for (std::int64_t c = lane_of_group * V; c - lane_of_group * V < given.k; c += T * V * N) {
        const char* const X = reinterpret_cast<const char*>(given.X + c);
        const char* const Y = reinterpret_cast<const char*>(given.Y + c);
        const auto is_there = [&](int n) { return c + n * T * V < given.k; };
        if (!is_one_pass) row_of_x = -1;
#pragma unroll
        for (int batch = 0; batch < summed_together; batch += U) {
          values_type y[U][N];
          int rows[U], columns[U];
#pragma unroll
          for (int u = 0; u < U; ++u) {
            rows[u] = cuda::from_lane(row, first_of_group + part + batch + u);
            columns[u] = cuda::from_lane(column, first_of_group + part + batch + u);
          }
          const auto load_x = [&](int u) {
            if (rows[u] == row_of_x) return;
            row_of_x = rows[u];
#pragma unroll
            for (int n = 0; n < N; ++n) {
              const char* const from = X + row_of_x * given.X_stride + n * T * V * sizeof(Value);
              if (is_there(n)) x[n].load_from(reinterpret_cast<const Value*>(from));
            }
          };
          load_x(0);
#pragma unroll
          for (int u = 0; u < U; ++u) {
#pragma unroll
            for (int n = 0; n < N; ++n) {
              const char* const from = Y + columns[u] * given.Y_stride + n * T * V * sizeof(Value);
              if (columns[u] >= 0 && is_there(n)) y[u][n].load_from(reinterpret_cast<const Value*>(from));
            }
          }
#pragma unroll
          for (int u = 0; u < U; ++u) {
            if (u > 0) load_x(u);
#pragma unroll
            for (int n = 0; n < N; ++n) {
              if (columns[u] >= 0 && is_there(n)) {
#pragma unroll
                for (int v = 0; v < V; ++v) sums[batch + u] += x[n][v] * y[u][n][v];
              }
            }
          }
        }
      }
      sum_type sum = cuda::interleaved_reduce_scatter(sums, lane);
      sum = cuda::interleaved_sum<summed_together, T>(sum);
      const int place = begin + first_of_group + part + lane_of_group;
      if (lane_of_group < summed_together && place < length) given.out[origin + place] = cuda::narrow<Value>(sum);
    }
  }
}

// Windows of a warp: several, so that looking for the first row is a small part of its work, but all multiprocessors
// get some.
int windows_per_warp(std::int64_t nnz) {
  constexpr std::int64_t warps_wanted = 16384;  // some for every place of a large GPU
  return static_cast<int>(std::clamp<std::int64_t>(nnz / warps_wanted / 32, 1, 8));
}

template <class Value, int V, int T, int N, int U>
void launch(sampled_view<Value> given, cudaStream_t stream) {
  given.nnz_per_block = windows_per_warp(given.nnz) * warps_per_block * 32;
  const std::int64_t blocks = (given.nnz + given.nnz_per_block - 1) / given.nnz_per_block;
  sampled_kernel<Value, V, T, N, U><<<static_cast<unsigned>(blocks), warps_per_block * 32, 0, stream>>>(given);
  cuda::check_launch("sampled_kernel");
}

// Few lanes a group, so that sums take few shuffles; N * U loads of Y in flight. What was fastest on an H200 for a
// 27-point grid, for random columns and for pruned weights, k = 32 and 128.
template <int V, class Value>
void launch_for_columns(const sampled_view<Value>& given, cudaStream_t stream) {
  const std::int64_t vectors = (given.k + V - 1) / V;
  if constexpr (V * sizeof(Value) == 16) {
    if (vectors <= 4) return launch<Value, V, 4, 1, 2>(given, stream);
    if (vectors <= 8) return launch<Value, V, 4, 2, 2>(given, stream);
    if (vectors <= 16) return launch<Value, V, 8, 2, 1>(given, stream);
    launch<Value, V, 8, 4, 1>(given, stream);
  } else {
    if (vectors <= 4) return launch<Value, V, 4, 1, 4>(given, stream);
    if (vectors <= 8) return launch<Value, V, 8, 1, 4>(given, stream);
    if (vectors <= 64) return launch<Value, V, 32, 2, 2>(given, stream);
    launch<Value, V, 32, 4, 2>(given, stream);
  }
}

// Whether every row of X and Y lets a lane load `width` values at once.
template <class Value>
bool takes_vectors(const sampled_view<Value>& given, int width) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(given.X) | reinterpret_cast<std::uintptr_t>(given.Y);
  const auto strides = given.X_stride | given.Y_stride;
  return addresses % (width * sizeof(Value)) == 0 && strides % static_cast<std::int64_t>(width * sizeof(Value)) == 0 &&
         given.k % width == 0;
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
                                    0,
                                    X.num_cols,
                                    {pattern.indptr, pattern.wide_indptr},
                                    pattern.indices,
                                    pattern.wide_indices,
                                    static_cast<const Value*>(X.data),
                                    X.leading_dimension * static_cast<std::int64_t>(sizeof(Value)),
                                    static_cast<const Value*>(Y.data),
                                    Y.leading_dimension * static_cast<std::int64_t>(sizeof(Value)),
                                    static_cast<Value*>(out)};
    constexpr int widest = 16 / sizeof(Value);
    if (takes_vectors(given, widest)) {
      launch_for_columns<widest>(given, stream);
    } else if (sizeof(Value) == 2 && takes_vectors(given, 2)) {
      launch_for_columns<sizeof(Value) == 2 ? 2 : 1>(given, stream);
    } else {
      launch_for_columns<1>(given, stream);
    }
  });
}

}  // namespace warploom
