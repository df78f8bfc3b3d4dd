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
// Where rows of values of two bytes begin on 16 bytes, tensor cores form the sums, so that no value is widened and no
// sum is shuffled: of the product of the rows of X of eight nonzeros with their rows of Y, transposed, the diagonal is
// what is wanted. That is an eighth of what they compute, and costs less than to add on CUDA cores.
//
// At least m rows of X and n rows of Y are read once, the pattern once (4 bytes a nonzero and 4 a row), and s bytes a
// nonzero are written; where rows of Y miss the caches, each nonzero costs s k bytes more (s bytes a value).
#include <algorithm>
#include <bit>
#include <cstdint>

#include "device/runtime.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/device/tensor_core.cuh"
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

// What a warp goes through: its windows of 32 nonzeros, one for each lane, with the row and the column of each. The
// pattern of the next window is under way meanwhile. `product` computes and stores those of a window.
template <class Value, class Product>
__device__ __forceinline__ void for_windows(const sampled_view<Value>& given, Product&& product) {
  const int lane = static_cast<int>(cuda::lane_id());
  const std::int64_t origin = std::int64_t{blockIdx.x} * given.nnz_per_block;
  const int length = static_cast<int>(min(static_cast<std::int64_t>(given.nnz_per_block), given.nnz - origin));
  int begin = static_cast<int>(threadIdx.x / 32) * 32;
  if (begin >= length) return;  // whole warps
  const auto load_window = [&](int row, int first) {
    return sampled_window::load(given, row, origin + first + lane, first + lane < length);
  };
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
    product(row, window.column_below(given.num_cols), origin + begin, length - begin);
  }
}

// Products of S nonzeros of each group, all of one row: nothing depends on where rows end, so that more loads of Y are
// under way at once. All N vectors of a lane are there. `length` is that of the window.
template <class Value, int V, int T, int N, int S>
__device__ __forceinline__ void add_products_of_row(const sampled_view<Value>& given, int row, int column, int part,
                                                    int length, cuda::sum_type_t<Value> (&sums)[S]) {
  using values_type = cuda::loaded_values<Value, V>;
  constexpr int at_once = 8 / N < S ? 8 / N : S;
  const int lane = static_cast<int>(cuda::lane_id());
  const int first = lane - lane % T + part;
  for (std::int64_t c = lane % T * V; c < given.k; c += T * V * N) {
    const char* const X = reinterpret_cast<const char*>(given.X + c) + row * given.X_stride;
    const char* const Y = reinterpret_cast<const char*>(given.Y + c);
    values_type x[N];
#pragma unroll
    for (int n = 0; n < N; ++n) x[n].load_from(reinterpret_cast<const Value*>(X + n * T * V * sizeof(Value)));
#pragma unroll
    for (int batch = 0; batch < S; batch += at_once) {
      if (part + batch >= length) break;  // for all groups; it also keeps all loads from being moved to the front
      values_type y[at_once][N];
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const int there =
            max(cuda::from_lane(column, first + batch + u), 0);  // the product of what is none is not kept
        const char* const from = Y + there * given.Y_stride;
#pragma unroll
        for (int n = 0; n < N; ++n) y[u][n].load_from(reinterpret_cast<const Value*>(from + n * T * V * sizeof(Value)));
      }
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
          for (int v = 0; v < V; ++v) sums[batch + u] += x[n][v] * y[u][n][v];
        }
      }
    }
  }
}

// V columns a vector, T lanes a group, N vectors a lane, U nonzeros at once. With `LongRows`, windows within one row
// are computed with more loads at once, for which registers, and so warps, are given up everywhere.
template <class Value, int V, int T, int N, int U, bool LongRows>
__global__ void __launch_bounds__(warps_per_block * 32) sampled_kernel(const sampled_view<Value> given) {
  using sum_type = cuda::sum_type_t<Value>;
  using values_type = cuda::loaded_values<Value, V>;
  constexpr int summed_together = T < 8 ? T : 8;
  static_assert(summed_together % U == 0);
  const int lane = static_cast<int>(cuda::lane_id());
  const int lane_of_group = lane % T;
  const int first_of_group = lane - lane_of_group;  // of the 32 nonzeros
  const bool is_one_pass = given.k <= T * V * N;
  const bool is_whole = given.k % (T * V * N) == 0;
  values_type x[N];
  int row_of_x = -1;
  for_windows(given, [&](int row, int column, std::int64_t begin, int length) {
    const bool is_one_row = LongRows && is_whole && cuda::from_lane(row, 0) == cuda::from_lane(row, 31);  // rows ascend
#pragma unroll 1
    for (int part = 0; part < T; part += summed_together) {
      sum_type sums[summed_together] = {};
      if constexpr (LongRows) {
        if (is_one_row) add_products_of_row<Value, V, T, N>(given, row, column, part, length, sums);
      }
      for (std::int64_t c = lane_of_group * V; !is_one_row && c - lane_of_group * V < given.k; c += T * V * N) {
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
      const int place = first_of_group + part + lane_of_group;
      if (lane_of_group < summed_together && place < length) given.out[begin + place] = cuda::narrow<Value>(sum);
    }
  });
}

// Four lanes read a nonzero's row of Y, eight values of two bytes each and N times that, of eight nonzeros together and
// P times as many at once. Which values of a row are multiplied together is free as long as X and Y agree: lane t takes
// the values 8 t to 8 t + 7 of each 32 for the two products that they are enough for.
template <class Value, int P, int N>
__global__ void __launch_bounds__(warps_per_block * 32, 5) sampled_diagonal_kernel(const sampled_view<Value> given) {
  constexpr int parts = 4;  // of a window, eight nonzeros each
  constexpr int columns_at_once = 32;
  using values_type = cuda::loaded_values<Value, 8>;
  const int lane = static_cast<int>(cuda::lane_id());
  const int g = lane / 4, t = lane % 4;
  for_windows(given, [&](int row, int column, std::int64_t begin, int length) {
    const bool is_one_row = cuda::from_lane(row, 0) == cuda::from_lane(row, 31);  // rows ascend
    float diagonal[parts];
#pragma unroll
    for (int part = 0; part < parts; part += P) {
      int rows[P], columns[P];
      float sums[P][4] = {};
#pragma unroll
      for (int p = 0; p < P; ++p) {
        rows[p] = cuda::from_lane(row, (part + p) * 8 + g);
        columns[p] = cuda::from_lane(column, (part + p) * 8 + g);
      }
      for (std::int64_t c = 8 * t; c - 8 * t < given.k; c += columns_at_once * N) {
        values_type x[P][N] = {}, y[P][N] = {};
#pragma unroll
        for (int p = 0; p < P; ++p) {
#pragma unroll
          for (int n = 0; n < N; ++n) {
            const std::int64_t first = c + n * columns_at_once;
            if (first >= given.k) continue;
            const char* const X = reinterpret_cast<const char*>(given.X + first) + rows[p] * given.X_stride;
            const char* const Y = reinterpret_cast<const char*>(given.Y + first) + columns[p] * given.Y_stride;
            if (columns[p] >= 0) y[p][n].load_from(reinterpret_cast<const Value*>(Y));
            if (p == 0 || !is_one_row) x[p][n].load_from(reinterpret_cast<const Value*>(X));
          }
        }
#pragma unroll
        for (int p = 0; p < P; ++p) {
#pragma unroll
          for (int n = 0; n < N; ++n) {
            if (p > 0 && is_one_row) x[p][n] = x[0][n];
            const auto& a = x[p][n].words;
            const auto& b = y[p][n].words;
            cuda::multiply_add_tile<Value>(sums[p], {a[0], 0, a[1], 0}, {b[0], b[1]});
            cuda::multiply_add_tile<Value>(sums[p], {a[2], 0, a[3], 0}, {b[2], b[3]});
          }
        }
      }
#pragma unroll
      for (int p = 0; p < P; ++p) diagonal[part + p] = g % 2 == 0 ? sums[p][0] : sums[p][1];
    }
    // Element g of a diagonal is in the lane with t = g / 2.
    float sum = 0;
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      const float found = cuda::from_lane(diagonal[part], lane % 8 * 4 + lane % 8 / 2);
      if (lane / 8 == part) sum = found;
    }
    if (lane < length) given.out[begin + lane] = cuda::narrow<Value>(sum);
  });
}

// Windows of a warp: several, so that looking for the first row is a small part of its work, but all multiprocessors
// get some.
int windows_per_warp(std::int64_t nnz) {
  constexpr std::int64_t warps_wanted = 16384;  // some for every place of a large GPU
  return static_cast<int>(std::clamp<std::int64_t>(nnz / warps_wanted / 32, 1, 8));
}

template <class Value>
void launch_kernel(void (*kernel)(sampled_view<Value>), const char* name, sampled_view<Value> given,
                   cudaStream_t stream) {
  given.nnz_per_block = windows_per_warp(given.nnz) * warps_per_block * 32;
  const std::int64_t blocks = (given.nnz + given.nnz_per_block - 1) / given.nnz_per_block;
  kernel<<<static_cast<unsigned>(blocks), warps_per_block * 32, 0, stream>>>(given);
  cuda::check_launch(name);
}

template <class Value, int V, int T, int N, int U, bool LongRows = false>
void launch(const sampled_view<Value>& given, cudaStream_t stream) {
  launch_kernel<Value>(sampled_kernel<Value, V, T, N, U, LongRows>, "sampled_kernel", given, stream);
}

template <class Value>
void launch_on_tensor_cores(const sampled_view<Value>& given, cudaStream_t stream) {
  const auto kernel = given.k <= 32 ? sampled_diagonal_kernel<Value, 4, 1> : sampled_diagonal_kernel<Value, 2, 2>;
  launch_kernel<Value>(kernel, "sampled_diagonal_kernel", given, stream);
}

// Where each warp has one window at most and few share a multiprocessor, waiting for memory is what takes time: each
// warp is to have more loads under way.
constexpr std::int64_t few_nonzeros = 1 << 16;

// Mean nonzeros of a row from which most windows are within one.
constexpr std::int64_t long_row = 96;

// Few lanes a group, so that sums take few shuffles; N * U loads of Y in flight. What was fastest on an H200 for a
// 27-point grid, for random columns and for pruned weights, k = 32 and 128.
template <int V, class Value>
void launch_for_columns(const sampled_view<Value>& given, cudaStream_t stream) {
  const std::int64_t vectors = (given.k + V - 1) / V;
  if constexpr (V * sizeof(Value) == 16) {
    if constexpr (sizeof(Value) > 2) {
      if (given.nnz <= few_nonzeros) {
        if (vectors <= 4) return launch<Value, V, 4, 1, 4>(given, stream);
        if (vectors <= 8) return launch<Value, V, 4, 2, 4>(given, stream);
        if (vectors <= 16) return launch<Value, V, 8, 2, 4>(given, stream);
        return launch<Value, V, 8, 4, 4>(given, stream);
      }
      if (given.nnz >= long_row * given.num_rows) {
        if (vectors <= 4) return launch<Value, V, 4, 1, 2, true>(given, stream);
        if (vectors <= 8) return launch<Value, V, 4, 2, 2, true>(given, stream);
        if (vectors <= 16) return launch<Value, V, 8, 2, 1, true>(given, stream);
        return launch<Value, V, 8, 4, 1, true>(given, stream);
      }
    }
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
    if constexpr (sizeof(Value) == 2) {
      const int capability = cuda::device_attribute(cudaDevAttrComputeCapabilityMajor);
      if (takes_vectors(given, widest) && capability >= cuda::first_with_bfloat16_tiles) {
        return launch_on_tensor_cores(given, stream);
      }
    }
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
