// Row-split SpMM, row-major B and C: neighbouring threads take neighbouring columns, so that a row of B is read in full
// cache lines, and every thread keeps `columns_per_thread` sums of its row in registers.
//
// `threads_per_row` threads work on a row: T of them on neighbouring columns (`column_threads`, or as many as the
// columns need); the S = threads_per_row / T threads of a column share the nonzeros of the row and add their sums at
// the end.
//
// With row segments (format segmented-csr), different warps work on the segments of a long row. Each of them stores its
// partial sums in a workspace; the one that finishes last adds them in their order, so that the result does not depend
// on which one that was.
//
// Rows of B need not start on 16 bytes: their length in elements may be odd, or B itself may start in between. Loads
// stay wide and aligned all the same (`covering_kernel`): threads load the vectors that cover a row, and have sums for
// each place within a vector at which a row can start. That takes up to twice as long as rows that do: where enough
// nonzeros are multiplied by each row of B, they are read from a copy, panel by panel of columns (kernels/spmm/
// padded_copy.hpp), by `exchanging_kernel`, which stores rows of C that start anywhere.
//
// Values of two bytes are multiplied and summed in float32 and rounded once; a thread then moves eight columns at once.
// The bytes of B decide how long a product takes: m rows of C and n rows of B once, (4 + s) bytes a nonzero and 4 a row
// of A are the least (s bytes a value), and where rows of B miss the caches each nonzero costs its row of B, s k bytes.
//
// With an epilogue, sums are finished where they are stored. Rows of B that start anywhere have none: C is passed over.
//
// Device code only. wide_values.cu has the instances for values of four and eight bytes, half_values.cu those of two,
// and finished_*.cu those with an epilogue.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <type_traits>

#include "device/device_csr.hpp"
#include "kernels/device/finish.cuh"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/finishing.hpp"
#include "kernels/padded_csr/device_padded.hpp"
#include "kernels/row_split/plans.hpp"
#include "kernels/spmm/copied_panels.hpp"
#include "kernels/spmm/device_rows.hpp"
#include "kernels/spmm/device_segments.hpp"
#include "kernels/spmm/padded_copy.hpp"

namespace warploom::cuda::row_split {

template <class Value>
struct row_major_operands {
  const Value* B;
  Value* C;
  std::uint32_t ldb_bytes;
  std::int64_t ldc;
  int k;
};

// With what becomes of sums before they are stored.
template <class Value>
struct finishing_operands : row_major_operands<Value> {
  finishing_values<Value> by;
};

// The nonzeros one group of threads works on, and where their sums go: row `row` of C, or slot `partial` of the
// workspace.
template <class Value>
struct work_item {
  const std::int32_t* indices;
  const Value* data;
  int length;
  std::int32_t row;
  int partial;
};

// The same with `length` entries, a multiple of 4, of which those with column -1 are padding.
template <class Value>
struct padded_item : work_item<Value> {};

// One item per stored row, then one per empty row.
template <class Value>
struct row_items {
  using item = work_item<Value>;
  rows_view<Value> A;

  __device__ unsigned size() const { return static_cast<unsigned>(A.num_stored_rows + A.num_empty_rows); }
  __device__ item operator[](unsigned p) const {
    if (p >= A.num_stored_rows) return {nullptr, nullptr, 0, A.empty_rows[p - A.num_stored_rows], -1};
    const std::int64_t begin = A.indptr[p];
    const int length = static_cast<int>(A.indptr[p + 1] - begin);
    return {A.indices + begin, A.data + begin, length, static_cast<std::int32_t>(A.row_of(p)), -1};
  }
};

// One item per row, all of the same length: where they are needs no memory access.
template <class Value>
struct padded_items {
  using item = padded_item<Value>;
  unsigned num_rows;
  int width;
  const std::int32_t* row_ids;  // null: the caller's order
  const std::int32_t* indices;
  const Value* data;

  __device__ unsigned size() const { return num_rows; }
  __device__ item operator[](unsigned p) const {
    const std::int64_t begin = std::int64_t{p} * width;
    return {{indices + begin, data + begin, width, row_ids ? row_ids[p] : static_cast<std::int32_t>(p), -1}};
  }
};

// One item per segment.
template <class Value>
struct segment_items {
  using item = work_item<Value>;
  segments_view<Value> A;

  __device__ unsigned size() const { return A.num_segments; }
  __device__ item operator[](unsigned i) const {
    const int4 s = __ldg(A.segments + i);
    return {A.indices + s.y, A.data + s.y, s.z, s.x, s.w};
  }
};

// T = 1 << column_bits threads on neighbouring columns, S = 1 << nonzero_bits on the nonzeros.
struct thread_shape {
  int column_bits;
  int nonzero_bits;

  __host__ __device__ int column_threads() const { return 1 << column_bits; }
  __host__ __device__ int group_size() const { return 1 << (column_bits + nonzero_bits); }
};

// The columns of one thread: N vectors of V consecutive columns, T vectors apart.
template <class Value, int V, int N>
struct thread_columns {
  int first;
  int stride;
  int k;

  __device__ thread_columns(const thread_shape& shape, int lane, int num_columns)
      : first((((blockIdx.y * N) << shape.column_bits) + lane) * V), stride(V << shape.column_bits), k(num_columns) {}
  __device__ thread_columns(int first_column, int columns_apart, int end)
      : first(first_column), stride(columns_apart), k(end) {}
  __device__ int column(int i) const { return first + i * stride; }
  __device__ bool any_valid() const { return first < k; }
  __device__ bool valid(int i) const { return i == 0 || column(i) < k; }  // given any_valid()
};

// U nonzeros of a row, fetched while those before them are being multiplied. A column of -1 marks none.
template <class Value, int U>
struct nonzeros {
  std::int32_t column[U];
  Value value[U];
};

// The nonzeros j .. j + U of a row.
template <int U, class Value>
__device__ __forceinline__ void fetch(nonzeros<Value, U>& chunk, const work_item<Value>& item, int j) {
  const std::int32_t* indices = item.indices + j;
  const Value* data = item.data + j;
  const int left = item.length - j;
#pragma unroll
  for (int u = 0; u < U; ++u) {
    chunk.column[u] = u < left ? __ldg(indices + u) : -1;
    chunk.value[u] = u < left ? read_only(data + u) : Value{};
  }
}

// The same of a padded row, whose entries are all there and start on 16 bytes.
template <int U, class Value>
__device__ __forceinline__ void fetch(nonzeros<Value, U>& chunk, const padded_item<Value>& item, int j) {
  static_assert(U % 4 == 0, "entries of a padded row are loaded four at a time");
  constexpr int values_at_once = sizeof(Value) == 8 ? 2 : 4;
  if (j >= item.length) return;
#pragma unroll
  for (int u = 0; u < U; u += 4) {
    if (u > 0 && j + u >= item.length) {  // the width need not be a multiple of U
#pragma unroll
      for (int i = 0; i < 4; ++i) chunk.column[u + i] = -1;
      continue;
    }
    *reinterpret_cast<int4*>(chunk.column + u) = __ldg(reinterpret_cast<const int4*>(item.indices + j + u));
#pragma unroll
    for (int i = 0; i < 4; i += values_at_once) {
      const auto values = load<Value, values_at_once>(item.data + j + u + i);
#pragma unroll
      for (int v = 0; v < values_at_once; ++v) chunk.value[u + i + v] = values.lane[v];
    }
  }
}

// Adds the nonzeros of an item times their rows of B to `sums`. `part` of `parts` threads takes every parts-th chunk of
// U nonzeros; U loads of B are in flight at once, and the next chunk is fetched while they are in flight.
template <int U, class Value, int V, int N, class Item, class Columns>
__device__ __forceinline__ void accumulate(vector<sum_type_t<Value>, V> (&sums)[N], const Item& item, int part,
                                           int parts, const row_major_operands<Value>& operands,
                                           const Columns& columns) {
  const char* const B = reinterpret_cast<const char*>(operands.B + columns.first);
  nonzeros<Value, U> next;
  int j = part * U;
  if (j < item.length) fetch(next, item, j);
  while (j < item.length) {
    const nonzeros<Value, U> chunk = next;
    loaded_values<Value, V> b[U][N];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      // 32 x 32 -> 64 bits: one multiply-add for the address.
      const char* row = B + std::uint64_t{static_cast<std::uint32_t>(chunk.column[u])} * operands.ldb_bytes;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (chunk.column[u] >= 0 && columns.valid(i)) {
          b[u][i].load_from(reinterpret_cast<const Value*>(row) + i * columns.stride);
        }
      }
    }
    j += U * parts;
    if (j < item.length) fetch(next, item, j);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (chunk.column[u] >= 0) {
        const sum_type_t<Value> a = widen(chunk.value[u]);
#pragma unroll
        for (int i = 0; i < N; ++i) {
#pragma unroll
          for (int v = 0; v < V; ++v) sums[i].lane[v] += a * b[u][i][v];
        }
      }
    }
  }
}

template <class Value, int V, int N, class Columns>
__device__ __forceinline__ void store(Value* row, const vector<sum_type_t<Value>, V> (&sums)[N],
                                      const Columns& columns) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (!columns.valid(i)) continue;
    if constexpr (std::is_same_v<sum_type_t<Value>, Value>) {  // a copy would cost registers
      store_streaming<Value, V>(row + columns.column(i), sums[i]);
    } else {
      vector<Value, V> rounded;
#pragma unroll
      for (int v = 0; v < V; ++v) rounded.lane[v] = narrow<Value>(sums[i].lane[v]);
      store_streaming<Value, V>(row + columns.column(i), rounded);
    }
  }
}

// Stores the columns of a thread of a row of C.
template <class Value, int V, int N, class Columns>
__device__ __forceinline__ void store_row(const row_major_operands<Value>& operands, std::int32_t row,
                                          const vector<sum_type_t<Value>, V> (&sums)[N], const Columns& columns) {
  store<Value, V, N>(operands.C + row * operands.ldc, sums, columns);
}

template <class Value, int V, int N, class Columns>
__device__ __forceinline__ void store_row(const finishing_operands<Value>& operands, std::int32_t row,
                                          const vector<sum_type_t<Value>, V> (&sums)[N], const Columns& columns) {
  Value* const C = operands.C + row * operands.ldc;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (!columns.valid(i)) continue;
    const int first = columns.column(i);
    vector<Value, V> before{};
    if (operands.by.beta != 0) before = *reinterpret_cast<const vector<Value, V>*>(C + first);
    vector<Value, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      result.lane[v] = narrow<Value>(operands.by(sums[i].lane[v], &before.lane[v], first + v));
    }
    store_streaming<Value, V>(C + first, result);
  }
}

// Adds up over the S threads of a group that share columns. Called by whole warps.
template <class Sum, int V, int N>
__device__ __forceinline__ void add_over_nonzero_lanes(vector<Sum, V> (&sums)[N], const thread_shape& shape) {
  for (int offset = shape.column_threads(); offset < shape.group_size(); offset *= 2) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int v = 0; v < V; ++v) sums[n].lane[v] += exchange(sums[n].lane[v], offset);
    }
  }
}

// Stores the partial sums of one segment of a cut row and, if all the others are stored, adds them. Called by whole
// warps; `cut` says whether this group has such a segment.
template <class Value, int V, int N, class Operands, class Columns>
__device__ void finish_cut_row(const segments_view<Value>& A, const work_item<Value>& item, bool cut, int nonzero_lane,
                               const thread_shape& shape, vector<sum_type_t<Value>, V> (&sums)[N],
                               const Operands& operands, const Columns& columns) {
  const cut_row<Value> row(A, cut, item.partial, blockIdx.y, gridDim.y);
  if (cut && nonzero_lane == 0) {
    sum_type_t<Value>* slot = A.slot(item.partial);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (!columns.valid(i)) continue;
#pragma unroll
      for (int v = 0; v < V; ++v) __stcg(slot + columns.column(i) + v, sums[i].lane[v]);
    }
  }
  const bool last = row.arrives_last(cut, shape.group_size());
  if (!any_lane(last)) return;

  // The S threads that shared the nonzeros now share the partial sums, each every S-th: the layout fixes which thread
  // adds which.
  const int pieces = last ? row.slots.count : 0;
  const int parts = 1 << shape.nonzero_bits;
#pragma unroll
  for (int i = 0; i < N; ++i) sums[i] = {};
  const sum_type_t<Value>* slots = A.slot(row.slots.first);
  constexpr int at_once = V == 1 && N > 4 ? 2 : 8;  // few registers are left beside many single sums
#pragma unroll at_once
  for (int piece = nonzero_lane; piece < pieces; piece += parts) {
    const sum_type_t<Value>* slot = slots + std::int64_t{piece} * A.workspace_columns;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (!columns.valid(i)) continue;
#pragma unroll
      for (int v = 0; v < V; ++v) sums[i].lane[v] += __ldcg(slot + columns.column(i) + v);
    }
  }
  add_over_nonzero_lanes(sums, shape);
  if (!last || nonzero_lane != 0) return;
  store_row<Value, V, N>(operands, item.row, sums, columns);
  row.reset(shape.group_size());
}

// What the kernel below does, as part of another kernel too: item `i`, the same for all threads of a group. Called by
// whole warps.
template <int U, class Value, int V, int N, class Items, class Operands>
__device__ __forceinline__ void multiply_item(const Items& items, const Operands& operands, const thread_shape& shape,
                                              unsigned i) {
  const int column_lane = threadIdx.x & (shape.column_threads() - 1);
  const int nonzero_lane = (threadIdx.x & (shape.group_size() - 1)) >> shape.column_bits;
  const thread_columns<Value, V, N> columns(shape, column_lane, operands.k);

  // Threads past the end stay with their warp for the shuffles, with nothing to add and nothing to store.
  const bool active = i < items.size() && columns.any_valid();
  typename Items::item item{};
  item.partial = -1;
  if (active) item = items[i];
  vector<sum_type_t<Value>, V> sums[N] = {};
  accumulate<U, Value>(sums, item, nonzero_lane, 1 << shape.nonzero_bits, operands, columns);
  add_over_nonzero_lanes(sums, shape);

  const bool stores = active && nonzero_lane == 0;
  const bool cut = item.partial >= 0;
  if (stores && !cut) store_row<Value, V, N>(operands, item.row, sums, columns);
  if constexpr (std::is_same_v<Items, segment_items<Value>>) {
    if (any_lane(cut)) {
      finish_cut_row<Value, V, N>(items.A, item, cut, nonzero_lane, shape, sums, operands, columns);
    }
  }
}

template <int U, class Value, int V, int N, class Items, class Operands>
__global__ void __launch_bounds__(256)
    row_split_kernel(const Items items, const Operands operands, const thread_shape shape) {
  const unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) >> (shape.column_bits + shape.nonzero_bits);
  multiply_item<U, Value, V, N>(items, operands, shape, i);
}

// ---- Rows of B that start anywhere
//
// A row of B starts some elements past a boundary of V elements: where depends on its number, on the leading dimension
// and on where B starts. It is a multiple of V / R, R = V / gcd(V, leading dimension, first element of B). Threads load
// the aligned vectors that cover the columns of the tile. A row that starts at s has column c at element s + c of them,
// so its products go to set s / (V / R) of R sets of sums, by instructions under a predicate: a product with zero would
// turn the infinities of neighbouring rows into NaN. When a row of C is done, the sets are shifted into place by way of
// shared memory, added in their order and stored in full sectors.
//
// T N vectors hold T N V - s columns. For those beyond, thread l has one more, loaded by itself: column
// T N V - (V - V / R) + l. That also saves a second tile, or threads without work, for a few columns more than T N V.
//
// A vector with an element of B in it does not reach over the memory that holds B: allocations start on more than 16
// bytes. But it may reach over the end of B by some elements: threads that have such a vector postpone the last row of
// B and load it element by element.

// `sum` += a b where `start` is `wanted`. In assembly because nvcc makes branches or selects of it otherwise.
__device__ __forceinline__ void add_product_if_equal(int start, int wanted, float a, float b, float& sum) {
  asm("{ .reg .pred p; setp.eq.s32 p, %1, %2; @p fma.rn.f32 %0, %3, %4, %0; }"
      : "+f"(sum)
      : "r"(start), "r"(wanted), "f"(a), "f"(b));
}
__device__ __forceinline__ void add_product_if_equal(int start, int wanted, double a, double b, double& sum) {
  asm("{ .reg .pred p; setp.eq.s32 p, %1, %2; @p fma.rn.f64 %0, %3, %4, %0; }"
      : "+d"(sum)
      : "r"(start), "r"(wanted), "d"(a), "d"(b));
}

// What one thread has of R sets of sums over T N vectors of V elements, and of its single column.
template <class Sum, int V, int R, int N>
struct covering_sums {
  Sum of_start[R][N][V];
  Sum single;
};

// What one thread loads of rows of B, in bytes: a row starts at 0, V / R, 2 V / R ... elements past a boundary.
template <class Value, int V, int R, int N>
struct covering_loads {
  static constexpr int size = sizeof(Value);
  static constexpr int vector_bytes = V * size;
  static constexpr int start_step = V / R;             // elements
  static constexpr int latest_start = V - start_step;  // elements
  static constexpr int no_row = -64;                   // as a start

  const char* B;  // this thread's first vector, in a row that starts on a boundary
  std::uint32_t ldb_bytes;
  std::uint32_t single;      // from there to its single column
  int apart;                 // from one of its vectors to the next
  int needed_after[N];       // vector i has columns of the tile if the row starts after this
  int single_from;           // the single column is in no vector if the row starts here or later
  std::uint32_t whole_rows;  // of B, whose vectors can be loaded: all, or all but the last

  __device__ covering_loads(const row_major_operands<Value>& operands, const thread_shape& shape, int lane, int first,
                            int num_columns, int last_row)
      : B(reinterpret_cast<const char*>(operands.B + first + V * lane)),
        ldb_bytes(operands.ldb_bytes),
        apart(vector_bytes << shape.column_bits),
        whole_rows(last_row + 1) {
    const int single_column = ((N * V) << shape.column_bits) - latest_start + lane;
    single = static_cast<std::uint32_t>((single_column - V * lane) * size);
    single_from = single_column < num_columns ? max(0, latest_start - lane) * size : vector_bytes;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int past_end = ((i << shape.column_bits) + lane) * V - num_columns;
      needed_after[i] = max(past_end * size, no_row);
      if (past_end > -V && past_end < latest_start) whole_rows = last_row;
    }
    // Not to be computed anew for each nonzero.
    asm("" : "+r"(single), "+r"(single_from));
    if constexpr (size == 2) asm("" : "+r"(whole_rows));
#pragma unroll
    for (int i = 0; i < N; ++i) asm("" : "+r"(needed_after[i]));
  }

  __device__ const char* row(std::uint32_t column) const { return B + std::uint64_t{column} * ldb_bytes; }
  __device__ static int start_of(const char* row) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(row) & (vector_bytes - 1));
  }
  __device__ const Value* vector_at(const char* row, int i) const {
    const auto boundary = reinterpret_cast<std::uintptr_t>(row) & ~std::uintptr_t{vector_bytes - 1};
    return reinterpret_cast<const Value*>(boundary + static_cast<std::uint32_t>(i * apart));
  }
  __device__ const Value* single_at(const char* row) const { return reinterpret_cast<const Value*>(row + single); }
  __device__ bool needs(int i, int start) const { return start > needed_after[i]; }
  // Whether element v of vector i is a column of the tile or one before it, for a vector at the end of a row.
  __device__ bool needs(int i, int start, int v) const { return start > needed_after[i] + v * size; }
};

// accumulate() for rows of B that start anywhere.
template <int U, class Value, int V, int R, int N, class Item>
__device__ __forceinline__ void accumulate_covering(covering_sums<sum_type_t<Value>, V, R, N>& sums, const Item& item,
                                                    int part, int parts, const covering_loads<Value, V, R, N>& loads) {
  nonzeros<Value, U> next;
  int postponed_from = item.length;
  int j = part * U;
  if (j < item.length) fetch(next, item, j);
  while (j < item.length) {
    const nonzeros<Value, U> chunk = next;
    loaded_values<Value, V> b[U][N];
    loaded_values<Value, 1> single[U];
    int starts[U];
    bool at_end = false;
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const auto column = static_cast<std::uint32_t>(chunk.column[u]);
      const char* row = loads.row(column);
      starts[u] = column < loads.whole_rows ? loads.start_of(row) : loads.no_row;
      at_end = at_end || column == loads.whole_rows;
      if (starts[u] >= loads.single_from) single[u].load_from(loads.single_at(row));
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (loads.needs(i, starts[u])) b[u][i].load_from(loads.vector_at(row, i));
      }
    }
    if (at_end) postponed_from = min(postponed_from, j);
    j += U * parts;
    if (j < item.length) fetch(next, item, j);
    // All loads are under way before the first product waits for one: nvcc mixes them otherwise.
    cuda::keep_load_order_of_active();
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const sum_type_t<Value> a = widen(chunk.value[u]);
#pragma unroll
      for (int set = 0; set < R; ++set) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
#pragma unroll
          for (int v = 0; v < V; ++v) {
            add_product_if_equal(starts[u], set * loads.start_step * loads.size, a, b[u][i][v],
                                 sums.of_start[set][i][v]);
          }
        }
      }
      if (starts[u] >= loads.single_from) sums.single += a * single[u][0];
    }
  }

  // The last row of B, element by element.
  for (j = postponed_from; j < item.length; j += U * parts) {
    for (int u = j; u < min(j + U, item.length); ++u) {
      const auto column = static_cast<std::uint32_t>(__ldg(item.indices + u));
      if (column != loads.whole_rows) continue;
      const sum_type_t<Value> a = widen(read_only(item.data + u));
      const char* row = loads.row(column);
      const int start = loads.start_of(row);
#pragma unroll
      for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
          if (!loads.needs(i, start, v)) continue;
          const sum_type_t<Value> b = widen(read_only(loads.vector_at(row, i) + v));
#pragma unroll
          for (int set = 0; set < R; ++set) {
            add_product_if_equal(start, set * loads.start_step * loads.size, a, b, sums.of_start[set][i][v]);
          }
        }
      }
      if (start >= loads.single_from) sums.single += a * widen(read_only(loads.single_at(row)));
    }
  }
}

// Sums of shared memory that T threads exchange: R sets of T N vectors, and the single columns. As long as this, groups
// of few threads are in different banks.
template <int V, int R, int N>
__host__ __device__ constexpr int exchanged_sums(int column_threads) {
  return R * N * V * column_threads + (column_threads > V ? column_threads : V);
}

// Adds the sets of sums in their order, each shifted to where its rows start: thread l gets columns l, l + T, ... of
// N V + 1. Called by whole warps.
template <class Sum, int V, int R, int N>
__device__ __forceinline__ void add_sets(const covering_sums<Sum, V, R, N>& sums, const thread_shape& shape, int lane,
                                         vector<Sum, 1> (&columns)[N * V + 1]) {
  extern __shared__ float4 exchanged[];
  constexpr int at_once = 16 / sizeof(Sum);
  constexpr int start_step = V / R, latest_start = V - start_step;
  const int T = shape.column_threads();
  const int width = T * N * V;
  Sum* const sets = reinterpret_cast<Sum*>(exchanged) + (threadIdx.x >> shape.column_bits) * exchanged_sums<V, R, N>(T);
  Sum* const singles = sets + R * width;
#pragma unroll
  for (int set = 0; set < R; ++set) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int v = 0; v < V; v += at_once) {
        vector<Sum, at_once> piece;
#pragma unroll
        for (int w = 0; w < at_once; ++w) piece.lane[w] = sums.of_start[set][i][v + w];
        *reinterpret_cast<vector<Sum, at_once>*>(sets + set * width + (i * T + lane) * V + v) = piece;
      }
    }
  }
  singles[lane] = sums.single;
  sync_warp();
#pragma unroll
  for (int m = 0; m <= N * V; ++m) {
    const int column = m * T + lane;
    Sum sum = 0;
#pragma unroll
    for (int set = 0; set < R; ++set) {
      const int element = column + set * start_step;
      // Only the last few columns can be beyond the vectors of some rows.
      const bool in_vectors = m < N * V - latest_start || element < width;
      if (m < N * V && in_vectors) sum += sets[set * width + element];
    }
    if (m >= N * V - latest_start) {
      const int owner = column - (width - latest_start);
      if (owner >= 0 && owner < T) sum += singles[owner];
    }
    columns[m].lane[0] = sum;
  }
}

template <int U, class Value, int V, int R, int N, class Items>
__global__ void __launch_bounds__(256)
    covering_kernel(const Items items, const row_major_operands<Value> operands, const thread_shape shape,
                    const int tile_columns, const int last_row) {
  const unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) >> (shape.column_bits + shape.nonzero_bits);
  const int column_lane = threadIdx.x & (shape.column_threads() - 1);
  int nonzero_lane = (threadIdx.x & (shape.group_size() - 1)) >> shape.column_bits;
  const int first = blockIdx.y * tile_columns;
  const int end = min(first + tile_columns, operands.k);
  thread_columns<Value, 1, N * V + 1> columns(first + column_lane, shape.column_threads(), end);

  const bool active = i < items.size() && columns.any_valid();
  typename Items::item item{};
  item.partial = -1;
  if (active) item = items[i];
  vector<sum_type_t<Value>, 1> sums[N * V + 1];
  {
    covering_sums<sum_type_t<Value>, V, R, N> sets = {};
    const covering_loads<Value, V, R, N> loads(operands, shape, column_lane, first, end - first, last_row);
    accumulate_covering<U>(sets, item, nonzero_lane, 1 << shape.nonzero_bits, loads);
    add_sets(sets, shape, column_lane, sums);
  }
  if constexpr (std::is_same_v<Items,
                               segment_items<Value>>) {  // computed again: the loop has no registers to keep them
    unsigned thread = threadIdx.x;
    asm("" : "+r"(thread));
    nonzero_lane = static_cast<int>(thread & (shape.group_size() - 1)) >> shape.column_bits;
    columns.first = first + static_cast<int>(thread & (shape.column_threads() - 1));
  }
  add_over_nonzero_lanes(sums, shape);

  const bool stores = active && nonzero_lane == 0;
  const bool cut = item.partial >= 0;
  if (stores && !cut) store<Value, 1, N * V + 1>(operands.C + item.row * operands.ldc, sums, columns);
  if constexpr (std::is_same_v<Items, segment_items<Value>>) {
    if (any_lane(cut)) {
      finish_cut_row<Value, 1, N * V + 1>(items.A, item, cut, nonzero_lane, shape, sums, operands, columns);
    }
  }
}

// ---- Rows of C that start anywhere
//
// Where rows of B can be loaded in whole vectors but rows of C cannot be stored in such, the threads of a row exchange
// their sums by way of shared memory, so that neighbouring threads store neighbouring columns: sectors are written in
// full. B may have fewer columns than its vectors hold if what follows them in a row is memory of B, too.

// Thread l gets columns l, l + T, ... of the N V T that T threads have sums of. Called by whole warps.
template <class Sum, int V, int N>
__device__ __forceinline__ void exchange_columns(const vector<Sum, V> (&sums)[N], const thread_shape& shape, int lane,
                                                 vector<Sum, 1> (&columns)[N * V]) {
  extern __shared__ float4 exchanged[];
  constexpr int at_once = 16 / sizeof(Sum);
  const int T = shape.column_threads();
  Sum* const group =
      reinterpret_cast<Sum*>(exchanged) + (threadIdx.x >> shape.column_bits) * exchanged_sums<V, 1, N>(T);
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int v = 0; v < V; v += at_once) {
      vector<Sum, at_once> piece;
#pragma unroll
      for (int w = 0; w < at_once; ++w) piece.lane[w] = sums[i].lane[v + w];
      *reinterpret_cast<vector<Sum, at_once>*>(group + (i * T + lane) * V + v) = piece;
    }
  }
  sync_warp();
#pragma unroll
  for (int m = 0; m < N * V; ++m) columns[m].lane[0] = group[m * T + lane];
}

template <int U, class Value, int V, int N, class Items>
__global__ void __launch_bounds__(256)
    exchanging_kernel(const Items items, const row_major_operands<Value> operands, const thread_shape shape) {
  const unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) >> (shape.column_bits + shape.nonzero_bits);
  const int column_lane = threadIdx.x & (shape.column_threads() - 1);
  const int nonzero_lane = (threadIdx.x & (shape.group_size() - 1)) >> shape.column_bits;
  const int first = (blockIdx.y * (N * V)) << shape.column_bits;
  const thread_columns<Value, 1, N * V> columns(first + column_lane, shape.column_threads(), operands.k);

  const bool active = i < items.size() && columns.any_valid();
  typename Items::item item{};
  item.partial = -1;
  if (active) item = items[i];
  vector<sum_type_t<Value>, 1> sums[N * V];
  {
    const thread_columns<Value, V, N> loaded(shape, column_lane, operands.k);
    if (!loaded.any_valid()) item.length = 0;  // a thread may have columns to store but none to load
    vector<sum_type_t<Value>, V> loaded_sums[N] = {};
    accumulate<U>(loaded_sums, item, nonzero_lane, 1 << shape.nonzero_bits, operands, loaded);
    add_over_nonzero_lanes(loaded_sums, shape);
    exchange_columns(loaded_sums, shape, column_lane, sums);
  }

  const bool stores = active && nonzero_lane == 0;
  const bool cut = item.partial >= 0;
  if (stores && !cut) store<Value, 1, N * V>(operands.C + item.row * operands.ldc, sums, columns);
  if constexpr (std::is_same_v<Items, segment_items<Value>>) {
    if (any_lane(cut)) {
      finish_cut_row<Value, 1, N * V>(items.A, item, cut, nonzero_lane, shape, sums, operands, columns);
    }
  }
}

// ---- Launches

// How many elements, a power of two up to 16 bytes, all rows of B begin on a multiple of.
template <class Value>
int row_alignment(const row_major_operands<Value>& operands) {
  const std::uint64_t bytes = reinterpret_cast<std::uintptr_t>(operands.B) | operands.ldb_bytes | 16u;
  return (1 << std::countr_zero(bytes)) / static_cast<int>(sizeof(Value));
}

// What `covering_kernel` takes longer than rows that are aligned, measured on an H200 (docs/static/columns.csv). With
// two sets of sums products of four and eight bytes take as long.
template <class Value>
unaligned_cost covering_cost(int alignment) {
  if constexpr (sizeof(Value) == 2) return alignment == 1 ? unaligned_cost{5, 0.5} : unaligned_cost{0, 0.05};
  if (sizeof(Value) == 4 && alignment == 1) return {8, 0.1};
  return {};
}

// How many columns (a power of two) every row of B and C lets a thread move at once.
template <class Value>
int vector_width(const row_major_operands<Value>& operands) {
  for (int width = 16 / static_cast<int>(sizeof(Value)); width > 1; width /= 2) {
    const std::uintptr_t addresses =
        reinterpret_cast<std::uintptr_t>(operands.B) | reinterpret_cast<std::uintptr_t>(operands.C);
    const std::int64_t sizes = (operands.ldb_bytes / sizeof(Value)) | operands.ldc | operands.k;
    if (addresses % (width * sizeof(Value)) == 0 && sizes % width == 0) return width;
  }
  return 1;
}

// Launch parameters that do not depend on the operands.
struct row_split_shape {
  int columns_per_thread;
  int threads_per_block;
  int unroll;
  thread_shape threads;
  int most_column_threads;

  explicit row_split_shape(const product_request& request)
      : columns_per_thread(request.parameters.at("columns_per_thread")),
        threads_per_block(request.parameters.at("threads_per_block")),
        unroll(request.parameters.at("unroll")) {
    const int per_row = request.parameters.at("threads_per_row");
    // As many column threads as k columns keep busy, or fewer if the request says so.
    const std::int64_t needed =
        std::clamp<std::int64_t>((request.k + columns_per_thread - 1) / columns_per_thread, 1, 32);
    const int useful = std::min<int>(per_row, std::bit_ceil(static_cast<unsigned>(needed)));
    const int asked = request.parameters.at("column_threads");
    const int column_threads = asked == 0 ? useful : std::min(asked, useful);
    threads.column_bits = std::countr_zero(static_cast<unsigned>(column_threads));
    threads.nonzero_bits = std::countr_zero(static_cast<unsigned>(per_row / column_threads));
    most_column_threads = asked == 0 ? per_row : std::min(asked, per_row);
  }
  // For fewer columns: threads that would have none take nonzeros.
  row_split_shape for_columns(std::int64_t columns) const {
    row_split_shape shape = *this;
    while (shape.threads.column_bits > 0 && columns * 2 <= shape.tile_columns()) {
      --shape.threads.column_bits;
      ++shape.threads.nonzero_bits;
    }
    return shape;
  }
  int tile_columns() const { return threads.column_threads() * columns_per_thread; }
  std::int64_t tiles(std::int64_t k) const { return (k + tile_columns() - 1) / tile_columns(); }
  // At most, whatever the alignment of the operands.
  std::int64_t most_tiles(std::int64_t k) const {
    const int narrowest = tile_columns() + threads.column_threads() - (columns_per_thread - 1);
    return columns_per_thread < 4 ? tiles(k) : std::max(tiles(k), (k + narrowest - 1) / narrowest);
  }
};

// How `covering_kernel` takes the columns: vectors of V elements, R places of them at which rows of B can start, and
// tiles of columns of one width.
struct covering_shape {
  int V;
  int R;
  thread_shape threads;
  int tile_columns;
  int tiles;

  // Columns that fit into a tile, and a multiple of which tiles start at.
  int start_step() const { return V / R; }
  int capacity(int columns_per_thread) const {
    return threads.column_threads() * (columns_per_thread + 1) - (V - start_step());
  }

  template <class Value>
  covering_shape(const row_major_operands<Value>& operands, const row_split_shape& shape)
      : V(std::min(16 / static_cast<int>(sizeof(Value)), shape.columns_per_thread)), threads(shape.threads) {
    const std::uint64_t elements =
        (reinterpret_cast<std::uintptr_t>(operands.B) | operands.ldb_bytes) / sizeof(Value) | 8u;
    const int common = 1 << std::countr_zero(elements);
    if (V / common > 2 && sizeof(Value) == 2) V = 4;  // eight places would take too many registers
    // One would be enough for a few columns more than a tile of aligned rows, which is not worth its kernels.
    R = std::max(2, V / common);
    // Two threads for 8 columns, say, have none left for those that do not fit into their vectors.
    const int k = operands.k;
    while (capacity(shape.columns_per_thread) < k && k <= threads.column_threads() * shape.columns_per_thread &&
           threads.column_threads() < shape.most_column_threads) {
      ++threads.column_bits;
      --threads.nonzero_bits;
    }
    const int most = capacity(shape.columns_per_thread);
    tiles = (k + most - 1) / most;
    tile_columns = k;
    if (tiles > 1) {  // as even as possible, and each starting where R places still are enough
      const int even = ((k + tiles - 1) / tiles + V - 1) / V * V;
      tile_columns = std::min(even, most / start_step() * start_step());
      tiles = (k + tile_columns - 1) / tile_columns;
    }
  }
};

template <class Value, class Items>
class launcher {
 public:
  launcher(const row_split_shape& shape, std::int64_t num_items, std::int64_t nnz)
      : shape_(shape), num_items_(num_items), nnz_(nnz) {
    make_pool(memory_pool::products);
  }

  void operator()(const Items& items, row_major_operands<Value> operands, std::int64_t rows_of_B,
                  cudaStream_t stream) const {
    if (multiply_copy(items, operands, rows_of_B, stream)) return;
    // A grid has at most 65,535 tiles of columns; what is wider takes several. A thread has a column or more.
    for (std::int64_t left = operands.k; left > 0; left -= widest_launch()) {
      operands.k = static_cast<int>(std::min(left, widest_launch()));
      launch_tiles(items, operands, static_cast<int>(rows_of_B - 1), false, stream);
      operands.B += operands.k;
      operands.C += operands.k;
    }
  }

  // The same with an epilogue, unless another kernel multiplies such operands: rows that begin anywhere.
  bool finish(const Items& items, const finishing_operands<Value>& operands, cudaStream_t stream) const {
    const int k = operands.k;
    if (k > widest_launch()) return false;
    const int width = std::min(vector_width<Value>(operands), shape_.columns_per_thread);
    const bool few = k <= narrow && width < widest_vector();
    if (!few && width < widest_vector() && shape_.columns_per_thread >= 4) return false;
    const int columns = std::min<int>(shape_.columns_per_thread, std::bit_ceil(static_cast<unsigned>(k)));
    by_width(items, operands, width, few ? columns : shape_.columns_per_thread, stream);
    return true;
  }

 private:
  static constexpr int narrow = 4;  // columns

  std::int64_t widest_launch() const { return std::int64_t{65528} * shape_.threads.column_threads(); }

  // The same from a copy of B whose rows are aligned, if that takes less time and there is memory for it.
  bool multiply_copy(const Items& items, const row_major_operands<Value>& operands, std::int64_t rows_of_B,
                     cudaStream_t stream) const {
    if constexpr (sizeof(Value) == 8) return false;
    constexpr std::int64_t size = sizeof(Value);
    const int alignment = row_alignment(operands);
    if (shape_.columns_per_thread < 4 || operands.k <= narrow || alignment >= widest_vector()) return false;
    const unaligned_product product{nnz_, rows_of_B, operands.k, size, covering_cost<Value>(alignment)};
    const std::int64_t panel = std::min(copied_columns(product, shape_.tile_columns()), widest_launch());
    if (panel == 0) return false;
    const auto multiply = [&](const dense_view& copy, std::int64_t first, std::int64_t columns) {
      row_major_operands<Value> part = operands;
      part.B += first;
      part.C += first;
      part.k = static_cast<int>(columns);
      const bool copied = copy.data != nullptr;
      if (copied) {
        part.B = static_cast<const Value*>(copy.data);
        part.ldb_bytes = static_cast<std::uint32_t>(copy.leading_dimension * size);
      }
      launcher of_panel = *this;
      of_panel.shape_ = shape_.for_columns(columns);
      of_panel.launch_tiles(items, part, static_cast<int>(rows_of_B - 1), copied, stream);
    };
    const dense_view B{const_cast<Value*>(operands.B), rows_of_B, operands.k, operands.ldb_bytes / size};
    return multiply_copied_panels(B, size, panel, narrow, stream, multiply);
  }

  // Columns that a thread moves at once where everything is aligned.
  int widest_vector() const { return std::min(16 / static_cast<int>(sizeof(Value)), shape_.columns_per_thread); }

  // `padded`: rows of B begin on 16 bytes and are filled up to such.
  void launch_tiles(const Items& items, const row_major_operands<Value>& operands, int last_row, bool padded,
                    cudaStream_t stream) const {
    const int width = std::min(vector_width(operands), shape_.columns_per_thread);
    const int widest = widest_vector();
    // Nothing is gained for what fits into one vector, or where the request is for fewer columns than that.
    if (operands.k <= narrow && width < widest) {
      return by_width(items, operands, width,
                      std::min<int>(shape_.columns_per_thread, std::bit_ceil(static_cast<unsigned>(operands.k))),
                      stream);
    }
    if (shape_.columns_per_thread >= 4) {
      const covering_shape covering(operands, shape_);
      const int tiles = static_cast<int>(shape_.tiles(operands.k));
      const int in_last_tile = operands.k - (tiles - 1) * shape_.tile_columns();
      const bool saves_last_tile = covering.tiles == tiles - 1 && in_last_tile <= shape_.threads.column_threads();
      if (width < widest && !saves_last_tile && sizeof(Value) < 8) {
        const bool whole_vectors = padded || operands.k % widest == 0;
        if (whole_vectors && row_alignment(operands) >= widest) return by_exchange(items, operands, stream);
      }
      if (width < widest || saves_last_tile) {
        // Of a copy, vectors can be loaded from the last row as from the others.
        return by_covering_vectors(items, operands, covering, padded ? last_row + 1 : last_row, stream);
      }
    }
    by_width(items, operands, width, shape_.columns_per_thread, stream);
  }

  template <class Operands>
  void by_width(const Items& items, const Operands& operands, int width, int columns_per_thread,
                cudaStream_t stream) const {
    switch (width) {
      case 8:
        return by_vectors<8>(items, operands, columns_per_thread, stream);
      case 4:
        return by_vectors<4>(items, operands, columns_per_thread, stream);
      case 2:
        return by_vectors<2>(items, operands, columns_per_thread, stream);
      default:
        return by_vectors<1>(items, operands, columns_per_thread, stream);
    }
  }

  template <int V, class Operands>
  void by_vectors(const Items& items, const Operands& operands, int columns_per_thread, cudaStream_t stream) const {
    // Narrower vectors than there could be are for at most 4 columns a thread.
    constexpr int most_vectors = V * sizeof(Value) == 16 ? 8 / V : 4 / V;
    if constexpr (V * sizeof(Value) <= 16) {
      switch (columns_per_thread / V) {
        case 1:
          if (shape_.unroll == 8) return launch<8, V, 1>(items, operands, columns_per_thread, stream);
          return launch<4, V, 1>(items, operands, columns_per_thread, stream);
        case 2:
          if constexpr (most_vectors >= 2) return launch<4, V, 2>(items, operands, columns_per_thread, stream);
          break;
        case 4:
          if constexpr (most_vectors >= 4) return launch<4, V, 4>(items, operands, columns_per_thread, stream);
          break;
      }
    }
  }

  template <int U, int V, int N, class Operands>
  void launch(const Items& items, const Operands& operands, int columns_per_thread, cudaStream_t stream) const {
    const int tile_columns = shape_.threads.column_threads() * columns_per_thread;
    const dim3 grid(blocks(), static_cast<unsigned>((operands.k + tile_columns - 1) / tile_columns));
    row_split_kernel<U, Value, V, N, Items, Operands>
        <<<grid, shape_.threads_per_block, 0, stream>>>(items, operands, shape_.threads);
    check_launch("row_split");
  }

  void by_exchange(const Items& items, const row_major_operands<Value>& operands, cudaStream_t stream) const {
    if constexpr (sizeof(Value) < 8) {
      constexpr int widest = 16 / sizeof(Value);
      if (shape_.columns_per_thread == 8) return launch_exchanging<widest, 8 / widest>(items, operands, stream);
      launch_exchanging<4, 1>(items, operands, stream);
    }
  }

  template <int V, int N>
  void launch_exchanging(const Items& items, const row_major_operands<Value>& operands, cudaStream_t stream) const {
    const thread_shape& threads = shape_.threads;
    const std::size_t shared = sizeof(sum_type_t<Value>) * (shape_.threads_per_block >> threads.column_bits) *
                               exchanged_sums<V, 1, N>(threads.column_threads());
    const dim3 grid(blocks(), static_cast<unsigned>(shape_.tiles(operands.k)));
    exchanging_kernel<4, Value, V, N><<<grid, shape_.threads_per_block, shared, stream>>>(items, operands, threads);
    check_launch("row_split");
  }

  void by_covering_vectors(const Items& items, const row_major_operands<Value>& operands,
                           const covering_shape& covering, int last_row, cudaStream_t stream) const {
    const auto vectors = [&]<int V, int R>() {
      if (shape_.columns_per_thread == 8) {
        launch_covering<V, R, 8 / V>(items, operands, covering, last_row, stream);
      } else if constexpr (V <= 4) {
        launch_covering<V, R, 4 / V>(items, operands, covering, last_row, stream);
      }
    };
    if constexpr (sizeof(Value) == 8) {
      vectors.template operator()<2, 2>();
    } else if (covering.V == 8) {
      if constexpr (sizeof(Value) == 2) vectors.template operator()<8, 2>();
    } else if (covering.R == 2) {
      vectors.template operator()<4, 2>();
    } else {
      vectors.template operator()<4, 4>();
    }
  }

  template <int V, int R, int N>
  void launch_covering(const Items& items, const row_major_operands<Value>& operands, const covering_shape& covering,
                       int last_row, cudaStream_t stream) const {
    const thread_shape& threads = covering.threads;
    const std::size_t shared = sizeof(sum_type_t<Value>) * (shape_.threads_per_block >> threads.column_bits) *
                               exchanged_sums<V, R, N>(threads.column_threads());
    const dim3 grid(blocks(), static_cast<unsigned>(covering.tiles));
    covering_kernel<4, Value, V, R, N>
        <<<grid, shape_.threads_per_block, shared, stream>>>(items, operands, threads, covering.tile_columns, last_row);
    check_launch("row_split");
  }

  unsigned blocks() const {
    const std::int64_t group_size = shape_.threads.group_size();
    return static_cast<unsigned>((num_items_ * group_size + shape_.threads_per_block - 1) / shape_.threads_per_block);
  }

  row_split_shape shape_;
  std::int64_t num_items_;
  std::int64_t nnz_;
};

template <class Value>
row_major_operands<Value> make_operands(const dense_view& B, const dense_view& C) {
  const std::int64_t ldb_bytes = B.leading_dimension * static_cast<std::int64_t>(sizeof(Value));
  if (ldb_bytes > std::numeric_limits<std::uint32_t>::max()) {
    throw error(error_kind::shape, "B", -1,
                "rows of B are " + std::to_string(ldb_bytes) + " bytes apart; at most 2^32 - 1 are supported");
  }
  return {static_cast<const Value*>(B.data), static_cast<Value*>(C.data), static_cast<std::uint32_t>(ldb_bytes),
          C.leading_dimension, static_cast<int>(C.num_cols)};
}

template <class Value>
finishing_operands<Value> make_operands(const dense_view& B, const dense_view& C, const epilogue& by) {
  return {make_operands<Value>(B, C), finishing_values<Value>(by)};
}

// launcher::finish, in files of instances of their own (finished_wide_values.cu, finished_half_values.cu).
template <class Value, class Items>
bool finish(const launcher<Value, Items>& launch, const Items& items, const finishing_operands<Value>& operands,
            cudaStream_t stream);

// launcher::operator() on segments, in half_values.cu and wide_values.cu, for plans that hold segments among others.
template <class Value>
void multiply_segments(const launcher<Value, segment_items<Value>>& launch, const segment_items<Value>& items,
                       const row_major_operands<Value>& operands, std::int64_t rows_of_B, cudaStream_t stream);

template <class Value>
class row_plan final : public product_plan, public finishing_plan {
 public:
  row_plan(const device_csr& matrix, stored_rows which, const product_request& request,
           const device_allocator& allocate)
      : rows_(matrix, which, request, allocate), launch_(row_split_shape(request), rows_.num_items(), matrix.nnz()) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    const row_major_operands<Value> operands = make_operands<Value>(B, C);
    rows_.clear(C, layout::row_major, stream);
    if (rows_.num_items() > 0) launch_(row_items<Value>{rows_.view()}, operands, B.num_rows, stream);
  }
  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (by.bias_is_column || rows_.num_items() < C.num_rows) return false;  // the others are cleared
    return finish(launch_, row_items<Value>{rows_.view()}, make_operands<Value>(B, C, by), stream);
  }
  std::size_t bytes() const override { return rows_.bytes(); }
  std::vector<value_array> value_arrays() override { return {rows_.all_values()}; }

 private:
  device_rows<Value> rows_;
  launcher<Value, row_items<Value>> launch_;
};

template <class Value>
class padded_plan final : public product_plan, public finishing_plan {
 public:
  padded_plan(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : rows_(matrix, request.row_ids, allocate), launch_(row_split_shape(request), matrix.num_rows(), matrix.nnz()) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    launch_(items(), make_operands<Value>(B, C), B.num_rows, stream);
  }
  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    return !by.bias_is_column && finish(launch_, items(), make_operands<Value>(B, C, by), stream);
  }
  std::size_t bytes() const override { return rows_.bytes(); }
  std::vector<value_array> value_arrays() override { return {rows_.all_values()}; }

 private:
  padded_items<Value> items() const {
    return {static_cast<unsigned>(rows_.num_rows()), rows_.width(), rows_.row_ids(), rows_.indices(),
            rows_.data<Value>()};
  }

  device_padded rows_;
  launcher<Value, padded_items<Value>> launch_;
};

template <class Value>
class segment_plan final : public product_plan, public finishing_plan {
 public:
  segment_plan(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : segments_(matrix, request, request.k, row_split_shape(request).most_tiles(request.k), allocate),
        launch_(row_split_shape(request), segments_.size(), matrix.nnz()) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    // The workspace is as wide as the plan: a wider product is computed panel by panel.
    const row_major_operands<Value> operands = make_operands<Value>(B, C);
    for (int first = 0; first < C.num_cols; first += segments_.columns()) {
      row_major_operands<Value> panel = operands;
      panel.B += first;
      panel.C += first;
      panel.k = static_cast<int>(std::min<std::int64_t>(segments_.columns(), C.num_cols - first));
      launch_(segment_items<Value>{segments_.view()}, panel, B.num_rows, stream);
    }
  }
  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (by.bias_is_column || C.num_cols > segments_.columns()) return false;
    return finish(launch_, segment_items<Value>{segments_.view()}, make_operands<Value>(B, C, by), stream);
  }
  std::size_t bytes() const override { return segments_.bytes(); }
  std::vector<value_array> value_arrays() override { return {segments_.all_values()}; }

 private:
  device_segments<Value> segments_;
  launcher<Value, segment_items<Value>> launch_;
};

template <class Value>
std::unique_ptr<product_plan> make_plan(const device_csr& matrix, stored_as form, const product_request& request,
                                        const device_allocator& allocate) {
  switch (form) {
    case stored_as::all_rows:
      return std::make_unique<row_plan<Value>>(matrix, stored_rows::all, request, allocate);
    case stored_as::nonempty_rows:
      return std::make_unique<row_plan<Value>>(matrix, stored_rows::nonempty, request, allocate);
    case stored_as::padded_rows:
      return std::make_unique<padded_plan<Value>>(matrix, request, allocate);
    default:
      return std::make_unique<segment_plan<Value>>(matrix, request, allocate);
  }
}

}  // namespace warploom::cuda::row_split
