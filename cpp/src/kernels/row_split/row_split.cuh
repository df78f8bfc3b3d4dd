// Row-split SpMM, row-major B and C: neighbouring threads take neighbouring columns, so that a row of B is read in full
// cache lines, and every thread keeps `columns_per_thread` sums of its row in registers.
//
// `threads_per_row` threads work on a row: T of them on neighbouring columns (`column_threads`, or as many as the
// columns need); the S = threads_per_row / T threads of a column share the nonzeros of the row and add their sums at
// the end.
//
// With row segments (format segmented-csr), different warps work on the segments of a long row. Each of them stores its
// partial sums in a workspace; the one that finishes last adds them in their order, so that the result does not depend
// on which one that was. Hundreds of segments are added up by another kernel (kernels/spmm/long_rows.cuh), and so are
// all where those of long rows come first, in the order of their columns (`by_column`; see nonzero_split.cu).
//
// What limits the kernel is how many bytes of B are under way at once. A grid that fills the GPU has most of them with
// many threads that load few rows each (`few_rows`); threads of small grids load more, and nonzeros ahead of them
// (`unroll`). Both add the same products in the same order.
//
// Rows of B need not start on 16 bytes: their length in elements may be odd, or B itself may start in between. Threads
// then load as many columns at once as all rows let them, down to one, and more threads take the columns of a row.
// Where enough nonzeros are multiplied by each row of B, rows are read from a copy, panel by panel of columns (kernels/
// spmm/padded_copy.hpp), by `exchanging_kernel`, which stores rows of C that start anywhere.
//
// Values of two bytes are multiplied and summed in float32 and rounded once; a thread then moves eight columns at once.
// The bytes of B decide how long a product takes: m rows of C and n rows of B once, (4 + s) bytes a nonzero and 4 a row
// of A are the least (s bytes a value), and where rows of B miss the caches each nonzero costs its row of B, s k bytes.
//
// With an epilogue, sums are finished where they are stored; only what is computed from a copy of B is passed over.
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
#include "kernels/row_split/row_loads.hpp"
#include "kernels/spmm/copied_panels.hpp"
#include "kernels/spmm/device_rows.hpp"
#include "kernels/spmm/device_segments.hpp"
#include "kernels/spmm/long_rows.cuh"
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

// T = 1 << column_bits threads on neighbouring columns, S = 1 << nonzero_bits on the nonzeros, of which each takes
// `at_once` in a row. A group of them works on `turns` items one after the other: in each turn, a thread block on
// neighbouring ones.
struct thread_shape {
  int column_bits;
  int nonzero_bits;
  int at_once = 4;
  int turns = 1;

  __host__ __device__ int column_threads() const { return 1 << column_bits; }
  __host__ __device__ int group_size() const { return 1 << (column_bits + nonzero_bits); }
  __device__ unsigned item(int turn) const {
    const int group_bits = column_bits + nonzero_bits;
    return (blockIdx.x * turns + turn) * (blockDim.x >> group_bits) + (threadIdx.x >> group_bits);
  }
  __device__ unsigned only_item() const {
    const int group_bits = column_bits + nonzero_bits;
    return blockIdx.x * (blockDim.x >> group_bits) + (threadIdx.x >> group_bits);
  }
};

// The columns of one thread: N vectors of V consecutive columns, T vectors apart. With T known to the compiler, loads
// of them differ by a constant; 0 stands for any.
template <class Value, int V, int N, int T = 0>
struct thread_columns {
  int first;
  int columns_apart;
  int k;

  __device__ thread_columns(const thread_shape& shape, int lane, int num_columns)
      : first((((blockIdx.y * N) << shape.column_bits) + lane) * V),
        columns_apart(V << shape.column_bits),
        k(num_columns) {}
  __device__ thread_columns(int first_column, int apart, int end) : first(first_column), columns_apart(apart), k(end) {}
  __device__ int stride() const { return T > 0 ? V * T : columns_apart; }
  __device__ int column(int i) const { return first + i * stride(); }
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
          b[u][i].load_from(reinterpret_cast<const Value*>(row) + i * columns.stride());
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

// How many rows of B a thread of a grid that fills the GPU has under way, with N vectors of V columns of each, and how
// many thread blocks of 256 threads the registers of a multiprocessor are shared by. Measured on an H200: more rows or
// fewer registers, down to where the compiler moves some to memory, are slower.
struct few_rows {
  int rows;
  unsigned blocks;

  __host__ __device__ static constexpr few_rows of(int value_bytes, int V, int N) {
    const int columns = V * N;
    switch (value_bytes) {
      case 8:
        return columns <= 2 ? few_rows{4, 5} : columns <= 4 ? few_rows{2, 4} : V == 1 ? few_rows{1, 4} : few_rows{4, 2};
      case 4:
        return columns <= 2   ? few_rows{4, 6}
               : columns <= 4 ? few_rows{2, 6}
               : columns <= 6 ? few_rows{2, 5}
                              : few_rows{4, 4};
      default:  // a register for each single value, and for each pair of such that are loaded at once
        if (V == 8) return N == 1 ? few_rows{1, 5} : few_rows{2, 4};
        if (V == 1) return N == 1 ? few_rows{4, 6} : N <= 3 ? few_rows{4, 5} : N == 4 ? few_rows{2, 6} : few_rows{2, 5};
        return {4, columns <= 4 ? 6u : 5u};
    }
  }
};

// Adds the products of the nonzeros j .. j + U of a row and their rows of B.
template <int U, class Value, int V, int N, class Item, class Columns>
__device__ __forceinline__ void add_products(vector<sum_type_t<Value>, V> (&sums)[N], const Item& item, int j,
                                             const char* B, const row_major_operands<Value>& operands,
                                             const Columns& columns) {
  nonzeros<Value, U> chunk;
#pragma unroll
  for (int u = 0; u < U; ++u) {
    chunk.column[u] = __ldg(item.indices + j + u);
    chunk.value[u] = read_only(item.data + j + u);
  }
  loaded_values<Value, V> b[U][N];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const char* row = B + std::uint64_t{static_cast<std::uint32_t>(chunk.column[u])} * operands.ldb_bytes;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (columns.valid(i)) b[u][i].load_from(reinterpret_cast<const Value*>(row) + i * columns.stride());
    }
  }
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const sum_type_t<Value> a = widen(chunk.value[u]);
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int v = 0; v < V; ++v) sums[i].lane[v] += a * b[u][i][v];
    }
  }
}

// The nonzeros begin .. end of a row, a few at a time; of a padded row, those before its padding.
template <class Value, int V, int N, class Item, class Columns>
__device__ __forceinline__ void add_few_at_once(vector<sum_type_t<Value>, V> (&sums)[N], const Item& item, int begin,
                                                int end, const char* B, const row_major_operands<Value>& operands,
                                                const Columns& columns) {
  constexpr int U = few_rows::of(sizeof(Value), V, N).rows;
  const auto is_padding = [&](int j) {
    return std::is_same_v<Item, padded_item<Value>> && __ldg(item.indices + j) < 0;
  };
  int j = begin;
  if constexpr (U > 1) {
    for (; j + U <= end && !is_padding(j + U - 1); j += U) {
      add_products<U, Value, V, N>(sums, item, j, B, operands, columns);
    }
  }
  constexpr int left = U > 1 ? 1 : 4;
#pragma unroll left
  for (; j < end && !is_padding(j); ++j) add_products<1, Value, V, N>(sums, item, j, B, operands, columns);
}

// What accumulate() adds, in the same order, with few registers.
template <class Value, int V, int N, class Item, class Columns>
__device__ __forceinline__ void accumulate_few(vector<sum_type_t<Value>, V> (&sums)[N], const Item& item, int part,
                                               int parts, int at_once, const row_major_operands<Value>& operands,
                                               const Columns& columns) {
  const char* const B = reinterpret_cast<const char*>(operands.B + columns.first);
  if (parts == 1) return add_few_at_once<Value, V, N>(sums, item, 0, item.length, B, operands, columns);
  for (int j = part * at_once; j < item.length; j += parts * at_once) {
    add_few_at_once<Value, V, N>(sums, item, j, min(j + at_once, item.length), B, operands, columns);
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
  const auto leave_sums = [&] {
    if (!cut || nonzero_lane != 0) return;
    sum_type_t<Value>* slot = A.slot(item.partial);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (columns.valid(i)) store_for_others(slot + columns.column(i), sums[i]);
    }
  };
  if (A.most_pieces <= 1) return leave_sums();  // every cut row is a long row
  const cut_row<Value> row(A, cut, item.partial, blockIdx.y, gridDim.y);
  leave_sums();
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
      const auto piece_sums = load_from_others<sum_type_t<Value>, V>(slot + columns.column(i));
#pragma unroll
      for (int v = 0; v < V; ++v) sums[i].lane[v] += piece_sums.lane[v];
    }
  }
  add_over_nonzero_lanes(sums, shape);
  if (!last || nonzero_lane != 0) return;
  store_row<Value, V, N>(operands, item.row, sums, columns);
  row.reset(shape.group_size());
}

// Enqueues the sums of long rows, of which the kernels before have stored the pieces.
template <class Value>
void add_long_rows(const segments_view<Value>& A, const row_major_operands<Value>& operands, cudaStream_t stream) {
  const finishing_values<Value> as_they_are(epilogue{});
  cuda::add_long_rows(A, {operands.C, operands.ldc, 1}, operands.k, as_they_are, stream);
}
template <class Value>
void add_long_rows(const segments_view<Value>& A, const finishing_operands<Value>& operands, cudaStream_t stream) {
  cuda::add_long_rows(A, {operands.C, operands.ldc, 1}, operands.k, operands.by, stream);
}

// What the kernel below does, as part of another kernel too: item `i`, the same for all threads of a group. U rows of B
// are under way at once; 0: as many as `few_rows` says. Called by whole warps.
template <int U, class Value, int V, int N, int T = 0, class Items, class Operands>
__device__ __forceinline__ void multiply_item(const Items& items, const Operands& operands, const thread_shape& shape,
                                              unsigned i) {
  const int column_lane = threadIdx.x & (shape.column_threads() - 1);
  const int nonzero_lane = (threadIdx.x & (shape.group_size() - 1)) >> shape.column_bits;
  const thread_columns<Value, V, N, T> columns(shape, column_lane, operands.k);

  // Threads past the end stay with their warp for the shuffles, with nothing to add and nothing to store.
  const bool active = i < items.size() && columns.any_valid();
  typename Items::item item{};
  item.partial = -1;
  if (active) item = items[i];
  vector<sum_type_t<Value>, V> sums[N] = {};
  const int parts = 1 << shape.nonzero_bits;
  if constexpr (U == 0) {
    accumulate_few<Value>(sums, item, nonzero_lane, parts, shape.at_once, operands, columns);
  } else {
    accumulate<U, Value>(sums, item, nonzero_lane, parts, operands, columns);
  }
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

// Thread blocks of 256 threads on a multiprocessor.
template <int U, class Value, int V, int N>
constexpr unsigned resident_blocks() {
  return blocks_with_registers(256, U > 0 ? 1 : few_rows::of(sizeof(Value), V, N).blocks);
}

template <int U, class Value, int V, int N, int T, class Items, class Operands>
__global__ void __launch_bounds__(256, resident_blocks<U, Value, V, N>())
    row_split_kernel(const Items items, const Operands operands, const thread_shape shape) {
  multiply_item<U, Value, V, N, T>(items, operands, shape, shape.only_item());
}

// The same with several turns, which takes registers that small grids need for rows of B.
template <class Value, int V, int N, int T, class Items, class Operands>
__global__ void __launch_bounds__(256, resident_blocks<0, Value, V, N>())
    row_split_in_turns_kernel(const Items items, const Operands operands, const thread_shape shape) {
  for (int turn = 0; turn < shape.turns; ++turn) {
    multiply_item<0, Value, V, N, T>(items, operands, shape, shape.item(turn));
  }
}

// ---- Rows of C that start anywhere
//
// Where rows of B can be loaded in whole vectors but rows of C cannot be stored in such, the threads of a row exchange
// their sums by way of shared memory, so that neighbouring threads store neighbouring columns: sectors are written in
// full. B may have fewer columns than its vectors hold if what follows them in a row is memory of B, too.

// Sums of shared memory that T threads exchange. As long as this, groups of few threads are in different banks.
template <int V, int N>
__host__ __device__ constexpr int exchanged_sums(int column_threads) {
  return N * V * column_threads + (column_threads > V ? column_threads : V);
}

// Thread l gets columns l, l + T, ... of the N V T that T threads have sums of. Called by whole warps.
template <class Sum, int V, int N>
__device__ __forceinline__ void exchange_columns(const vector<Sum, V> (&sums)[N], const thread_shape& shape, int lane,
                                                 vector<Sum, 1> (&columns)[N * V]) {
  extern __shared__ float4 exchanged[];
  constexpr int at_once = 16 / sizeof(Sum);
  const int T = shape.column_threads();
  Sum* const group = reinterpret_cast<Sum*>(exchanged) + (threadIdx.x >> shape.column_bits) * exchanged_sums<V, N>(T);
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
__global__ void __launch_bounds__(256, resident_blocks<U, Value, V, N>())
    exchanging_kernel(const Items items, const row_major_operands<Value> operands, const thread_shape shape) {
  const unsigned i = shape.only_item();
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
    const int parts = 1 << shape.nonzero_bits;
    if constexpr (U == 0) {
      accumulate_few<Value>(loaded_sums, item, nonzero_lane, parts, shape.at_once, operands, loaded);
    } else {
      accumulate<U>(loaded_sums, item, nonzero_lane, parts, operands, loaded);
    }
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

// What rows take longer that are not loaded 16 bytes at once, measured on an H200 (docs/static/columns.csv).
template <class Value>
unaligned_cost cost_of_alignment(int alignment) {
  if (sizeof(Value) == 4 && alignment == 1) return {0, 0.05};
  if (sizeof(Value) == 2 && alignment == 1) return {0, 0.13};
  if (sizeof(Value) == 2 && alignment == 2) return {0, 0.05};
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

  row_split_shape(const product_request& request, std::size_t value_bytes)
      : columns_per_thread(std::min(request.parameters.at("columns_per_thread"), most_columns_per_thread(value_bytes))),
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
  std::int64_t most_tiles(std::int64_t k) const;
};

// How threads share the columns where they load V < 16 bytes' worth at once: fewer than 32 threads have up to
// `most_vectors` vectors each before more threads take part. Measured on an H200: threads that idle cost more than
// vectors.
struct narrow_shape {
  thread_shape threads;
  int vectors_per_thread;
  int tiles;

  static constexpr int fewest_bits = 3, most_bits = 5;  // of threads on the columns
  static constexpr int most_vectors(int V, int column_bits) {
    constexpr int one[] = {3, 4, 5}, two[] = {2, 3, 3}, four[] = {2, 2, 2};
    return (V == 1 ? one : V == 2 ? two : four)[column_bits - fewest_bits];
  }
  // More than half as many threads can take.
  static constexpr int fewest_vectors(int V, int column_bits) {
    return column_bits == fewest_bits ? 1 : most_vectors(V, column_bits - 1) / 2 + 1;
  }

  narrow_shape(int V, std::int64_t k, const thread_shape& asked) : threads(asked) {
    const std::int64_t vectors = (k + V - 1) / V;
    const std::int64_t widest = std::int64_t{most_vectors(V, most_bits)} << most_bits;
    tiles = static_cast<int>((vectors + widest - 1) / widest);
    const std::int64_t in_tile = (vectors + tiles - 1) / tiles;
    threads.column_bits = fewest_bits;
    while (in_tile > std::int64_t{most_vectors(V, threads.column_bits)} << threads.column_bits) ++threads.column_bits;
    vectors_per_thread = static_cast<int>((in_tile + threads.column_threads() - 1) >> threads.column_bits);
    threads.nonzero_bits = std::max(0, asked.column_bits + asked.nonzero_bits - threads.column_bits);
  }
};

inline std::int64_t row_split_shape::most_tiles(std::int64_t k) const {
  return columns_per_thread < 4 ? tiles(k) : std::max<std::int64_t>(tiles(k), narrow_shape(1, k, threads).tiles);
}

inline std::int64_t resident_threads() {
  return std::int64_t{device_attribute(cudaDevAttrMultiProcessorCount)} *
         device_attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
}

template <class Value, class Items>
class launcher {
 public:
  // `longest`: nonzeros of the longest item. `sorted`: items are in the order of decreasing length.
  launcher(const row_split_shape& shape, std::int64_t num_items, std::int64_t nnz, std::int64_t longest,
           bool sorted = false)
      : shape_(shape),
        num_items_(num_items),
        nnz_(nnz),
        mean_(std::max<std::int64_t>(1, nnz / std::max<std::int64_t>(1, num_items))),
        longest_(longest),
        sorted_(sorted),
        resident_threads_(resident_threads()),
        threads_for_few_rows_(few_rows_pay(num_items, nnz, longest) ? resident_threads_
                                                                    : std::numeric_limits<std::int64_t>::max()) {
    make_pool(memory_pool::products);
  }

  void operator()(const Items& items, row_major_operands<Value> operands, std::int64_t rows_of_B,
                  cudaStream_t stream) const {
    if (multiply_copy(items, operands, rows_of_B, stream)) return;
    // A grid has at most 65,535 tiles of columns; what is wider takes several. A thread has a column or more.
    for (std::int64_t left = operands.k; left > 0; left -= widest_launch()) {
      operands.k = static_cast<int>(std::min(left, widest_launch()));
      multiply(items, operands, false, stream);
      operands.B += operands.k;
      operands.C += operands.k;
    }
  }

  // The same with an epilogue, unless the product is computed from a copy.
  bool finish(const Items& items, const finishing_operands<Value>& operands, std::int64_t rows_of_B,
              cudaStream_t stream) const {
    if (operands.k > widest_launch() || columns_to_copy(operands, rows_of_B) > 0) return false;
    multiply(items, operands, false, stream);
    return true;
  }

 private:
  static constexpr int narrow = 4;  // columns

  std::int64_t widest_launch() const { return std::int64_t{65528} * shape_.threads.column_threads(); }

  // Of a copy of B whose rows are aligned, if the product takes less time from such; 0: it does not.
  std::int64_t columns_to_copy(const row_major_operands<Value>& operands, std::int64_t rows_of_B) const {
    if constexpr (sizeof(Value) == 8) return 0;
    const int alignment = row_alignment(operands);
    if (shape_.columns_per_thread < 4 || operands.k <= narrow || alignment >= widest_vector()) return 0;
    const unaligned_product product{nnz_, rows_of_B, operands.k, sizeof(Value), cost_of_alignment<Value>(alignment)};
    return std::min(copied_columns(product, shape_.tile_columns()), widest_launch());
  }

  // The same from such a copy, if there is memory for it.
  bool multiply_copy(const Items& items, const row_major_operands<Value>& operands, std::int64_t rows_of_B,
                     cudaStream_t stream) const {
    constexpr std::int64_t size = sizeof(Value);
    const std::int64_t panel = columns_to_copy(operands, rows_of_B);
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
      of_panel.multiply(items, part, copied, stream);
    };
    const dense_view B{const_cast<Value*>(operands.B), rows_of_B, operands.k, operands.ldb_bytes / size};
    return multiply_copied_panels(B, size, panel, narrow, stream, multiply);
  }

  // Columns that a thread moves at once where everything is aligned.
  int widest_vector() const { return std::min(16 / static_cast<int>(sizeof(Value)), shape_.columns_per_thread); }

  // `padded`: rows of B begin on 16 bytes and are filled up to such.
  template <class Operands>
  void multiply(const Items& items, const Operands& operands, bool padded, cudaStream_t stream) const {
    launch_tiles(items, operands, padded, stream);
    if constexpr (std::is_same_v<Items, segment_items<Value>>) add_long_rows(items.A, operands, stream);
  }

  template <class Operands>
  void launch_tiles(const Items& items, const Operands& operands, bool padded, cudaStream_t stream) const {
    const int width = std::min(vector_width<Value>(operands), shape_.columns_per_thread);
    const int widest = widest_vector();
    // One vector holds all columns, or the request is for fewer a thread than narrow vectors are made for.
    const bool one_vector = std::has_single_bit(static_cast<unsigned>(operands.k));
    if (operands.k <= narrow && width < widest && (one_vector || shape_.columns_per_thread < 4)) {
      return by_width(items, operands, width,
                      std::min<int>(shape_.columns_per_thread, std::bit_ceil(static_cast<unsigned>(operands.k))),
                      stream);
    }
    if (shape_.columns_per_thread >= 4 && width < widest) {
      if constexpr (std::is_same_v<Operands, row_major_operands<Value>> && sizeof(Value) < 8) {
        const bool whole_vectors = padded || operands.k % widest == 0;
        if (whole_vectors && row_alignment(operands) >= widest) return by_exchange(items, operands, stream);
      }
      return by_narrow_vectors(items, operands, width, stream);
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
    constexpr int most_vectors = (V * sizeof(Value) == 16 ? most_columns_per_thread(sizeof(Value)) : 4) / V;
    if constexpr (V * sizeof(Value) <= 16) {
      switch (columns_per_thread / V) {
        case 1:
          return by_rows_at_once<V, 1>(items, operands, stream);
        case 2:
          if constexpr (most_vectors >= 2) return by_rows_at_once<V, 2>(items, operands, stream);
          break;
        case 4:
          if constexpr (most_vectors >= 4) return by_rows_at_once<V, 4>(items, operands, stream);
          break;
      }
    }
  }

  // Rows of B that a thread has under way: with one vector a row as many as the request says.
  template <int V, int N, class Operands>
  void by_rows_at_once(const Items& items, const Operands& operands, cudaStream_t stream) const {
    thread_shape threads = shape_.threads;
    threads.at_once = N == 1 ? shape_.unroll : 4;
    const int tile_columns = V * N * threads.column_threads();
    const int tiles = (operands.k + tile_columns - 1) / tile_columns;
    // With less to load for each, even many rows take few registers. Measured on an H200: in float32, four threads with
    // a vector each wait less with nonzeros loaded ahead.
    const bool waits_for_nonzeros = sizeof(Value) == 4 && N == 1 && threads.column_bits <= 2;
    if constexpr (V * N * sizeof(Value) > 8 || sizeof(Value) == 2) {
      if (!waits_for_nonzeros && fills_gpu(threads, tiles)) {
        return launch<0, V, N>(items, operands, threads, tiles, stream);
      }
    }
    if constexpr (N == 1) {
      if (shape_.unroll == 8) return launch<8, V, N>(items, operands, threads, tiles, stream);
    }
    launch<4, V, N>(items, operands, threads, tiles, stream);
  }

  template <class Operands>
  void by_narrow_vectors(const Items& items, const Operands& operands, int width, cudaStream_t stream) const {
    const narrow_shape shape(width, operands.k, shape_.threads);
    const auto of_width = [&]<int V>() {
      switch (shape.threads.column_bits) {
        case 3:
          return launch_narrow<V, 3>(items, operands, shape, stream);
        case 4:
          return launch_narrow<V, 4>(items, operands, shape, stream);
        default:
          return launch_narrow<V, 5>(items, operands, shape, stream);
      }
    };
    if (width == 1) return of_width.template operator()<1>();
    if constexpr (sizeof(Value) < 8) {
      if (width == 2) return of_width.template operator()<2>();
    }
    if constexpr (sizeof(Value) == 2) of_width.template operator()<4>();
  }

  template <int V, int column_bits, int N = narrow_shape::most_vectors(V, column_bits), class Operands>
  void launch_narrow(const Items& items, const Operands& operands, const narrow_shape& shape,
                     cudaStream_t stream) const {
    if constexpr (N > narrow_shape::fewest_vectors(V, column_bits)) {
      if (shape.vectors_per_thread < N) return launch_narrow<V, column_bits, N - 1>(items, operands, shape, stream);
    }
    launch<0, V, N, 1 << column_bits>(items, operands, shape.threads, shape.tiles, stream);
  }

  template <int U, int V, int N, int T = 0, class Operands>
  void launch(const Items& items, const Operands& operands, thread_shape threads, int tiles,
              cudaStream_t stream) const {
    auto kernel = row_split_kernel<U, Value, V, N, T, Items, Operands>;
    if constexpr (U == 0 && takes_turns<V, N>) {
      threads.turns = turns(threads, tiles);
      if (threads.turns > 1) kernel = row_split_in_turns_kernel<Value, V, N, T, Items, Operands>;
    }
    kernel<<<dim3(blocks(threads), static_cast<unsigned>(tiles)), shape_.threads_per_block, 0, stream>>>(
        items, operands, threads);
    check_launch("row_split");
  }

  void by_exchange(const Items& items, const row_major_operands<Value>& operands, cudaStream_t stream) const {
    if constexpr (sizeof(Value) < 8) {
      constexpr int widest = 16 / sizeof(Value);
      if constexpr (widest == 8) {
        if (shape_.columns_per_thread == 16) return launch_exchanging<widest, 2>(items, operands, stream);
      }
      if (shape_.columns_per_thread == 8) return launch_exchanging<widest, 8 / widest>(items, operands, stream);
      launch_exchanging<4, 1>(items, operands, stream);
    }
  }

  template <int V, int N>
  void launch_exchanging(const Items& items, const row_major_operands<Value>& operands, cudaStream_t stream) const {
    const thread_shape& threads = shape_.threads;
    const std::size_t shared = sizeof(sum_type_t<Value>) * (shape_.threads_per_block >> threads.column_bits) *
                               exchanged_sums<V, N>(threads.column_threads());
    const int tiles = static_cast<int>(shape_.tiles(operands.k));
    const auto launch_with = [&]<int U>() {
      exchanging_kernel<U, Value, V, N, Items>
          <<<dim3(blocks(threads), static_cast<unsigned>(tiles)), shape_.threads_per_block, shared, stream>>>(
              items, operands, threads);
    };
    if (fills_gpu(threads, tiles)) {
      launch_with.template operator()<0>();
    } else {
      launch_with.template operator()<4>();
    }
    check_launch("row_split");
  }

  // There are so many threads that more registers for each would leave room for fewer.
  bool fills_gpu(const thread_shape& threads, int tiles) const {
    const row_loads when = chosen_row_loads();
    if (when != row_loads::by_size) return when == row_loads::few;
    return num_items_ * threads.group_size() * tiles >= threads_for_few_rows_;
  }

  // Measured on an H200: for padded rows, whose entries are found without waiting, both ways take as long below
  // float64. One thread with a row much longer than the others should not wait for each row of B.
  static bool few_rows_pay(std::int64_t num_items, std::int64_t nnz, std::int64_t longest) {
    if (std::is_same_v<Items, padded_items<Value>> && sizeof(Value) < 8) return false;
    return longest <= std::max<std::int64_t>(256, 32 * nnz / std::max<std::int64_t>(1, num_items));
  }

  // Not where registers are too few for a turn to be counted in one.
  template <int V, int N>
  static constexpr bool takes_turns = sizeof(Value) < 8 || V * N < 8;

  // Where thread blocks would have little to do, groups take several items, as long as the grid fills the GPU four
  // times: starting a thread block takes as long as some hundred nonzeros do (measured on an H200). Items are about
  // equally long then: a group with several long ones would keep its thread block waiting.
  int turns(const thread_shape& threads, int tiles) const {
    constexpr std::int64_t several = 4, enough_nonzeros = 400;
    if (sorted_ || longest_ > 4 * mean_ + 16) return 1;
    const bool has_little = several * mean_ * (shape_.threads_per_block / threads.group_size()) <= enough_nonzeros;
    const bool fills = num_items_ * threads.group_size() * tiles >= 4 * several * resident_threads_;
    return has_little && fills ? several : 1;
  }

  unsigned blocks(const thread_shape& threads) const {
    const std::int64_t items_per_block = std::int64_t{threads.turns} * shape_.threads_per_block / threads.group_size();
    return static_cast<unsigned>((num_items_ + items_per_block - 1) / items_per_block);
  }

  row_split_shape shape_;
  std::int64_t num_items_;
  std::int64_t nnz_;
  std::int64_t mean_;  // nonzeros of an item, at least 1
  std::int64_t longest_;
  bool sorted_;
  std::int64_t resident_threads_;
  std::int64_t threads_for_few_rows_;
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
            std::int64_t rows_of_B, cudaStream_t stream);

// launcher::operator() on segments, in half_values.cu and wide_values.cu, for plans that hold segments among others.
template <class Value>
void multiply_segments(const launcher<Value, segment_items<Value>>& launch, const segment_items<Value>& items,
                       const row_major_operands<Value>& operands, std::int64_t rows_of_B, cudaStream_t stream);

template <class Value>
class row_plan final : public product_plan, public finishing_plan {
 public:
  row_plan(const device_csr& matrix, stored_rows which, const product_request& request,
           const device_allocator& allocate)
      : rows_(matrix, which, request, allocate),
        launch_(row_split_shape(request, sizeof(Value)), rows_.num_items(), matrix.nnz(),
                matrix.summary().longest_row) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    const row_major_operands<Value> operands = make_operands<Value>(B, C);
    rows_.clear(C, layout::row_major, stream);
    if (rows_.num_items() > 0) launch_(row_items<Value>{rows_.view()}, operands, B.num_rows, stream);
  }
  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (by.bias_is_column || rows_.num_items() < C.num_rows) return false;  // the others are cleared
    return finish(launch_, row_items<Value>{rows_.view()}, make_operands<Value>(B, C, by), B.num_rows, stream);
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
      : rows_(matrix, request.row_ids, allocate),
        launch_(row_split_shape(request, sizeof(Value)), matrix.num_rows(), matrix.nnz(),
                matrix.summary().longest_row) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    launch_(items(), make_operands<Value>(B, C), B.num_rows, stream);
  }
  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    return !by.bias_is_column && finish(launch_, items(), make_operands<Value>(B, C, by), B.num_rows, stream);
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
      : segment_plan(matrix, request, row_split_shape(request, sizeof(Value)), allocate) {}

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
    return finish(launch_, segment_items<Value>{segments_.view()}, make_operands<Value>(B, C, by), B.num_rows, stream);
  }
  std::size_t bytes() const override { return segments_.bytes(); }
  std::vector<value_array> value_arrays() override { return {segments_.all_values()}; }

 private:
  segment_plan(const device_csr& matrix, const product_request& request, const row_split_shape& shape,
               const device_allocator& allocate)
      : segments_(matrix, request,
                  segments_by_column(requested_segments(request), request.parameters.at("by_column") != 0,
                                     pieces_of_group(1 << shape.threads.nonzero_bits)),
                  request.k, shape.most_tiles(request.k), allocate),
        launch_(shape, segments_.size(), matrix.nnz(), request.parameters.at("segment_length"),
                request.parameters.at("longest_first") != 0) {}

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
