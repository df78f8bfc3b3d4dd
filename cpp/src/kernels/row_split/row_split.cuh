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
// Values of two bytes are multiplied and summed in float32 and rounded once; a thread then moves eight columns at once.
// The bytes of B decide how long a product takes: m rows of C and n rows of B once, (4 + s) bytes a nonzero and 4 a row
// of A are the least (s bytes a value), and where rows of B miss the caches each nonzero costs its row of B, s k bytes.
//
// Device code only. wide_values.cu has the instances for values of four and eight bytes, half_values.cu those of two.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <type_traits>

#include "device/device_csr.hpp"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/padded_csr/device_padded.hpp"
#include "kernels/row_split/plans.hpp"
#include "kernels/spmm/device_rows.hpp"
#include "kernels/spmm/device_segments.hpp"

namespace warploom::cuda::row_split {

template <class Value>
struct row_major_operands {
  const Value* B;
  Value* C;
  std::uint32_t ldb_bytes;
  std::int64_t ldc;
  int k;
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
    chunk.value[u] = u < left ? __ldg(data + u) : Value{};
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
template <class Value, int V, int N, class Columns>
__device__ void finish_cut_row(const segments_view<Value>& A, const work_item<Value>& item, bool cut, int nonzero_lane,
                               const thread_shape& shape, vector<sum_type_t<Value>, V> (&sums)[N],
                               const row_major_operands<Value>& operands, const Columns& columns) {
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
#pragma unroll 8
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
  store<Value, V, N>(operands.C + item.row * operands.ldc, sums, columns);
  row.reset(shape.group_size());
}

template <int U, class Value, int V, int N, class Items>
__global__ void __launch_bounds__(256)
    row_split_kernel(const Items items, const row_major_operands<Value> operands, const thread_shape shape) {
  const unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) >> (shape.column_bits + shape.nonzero_bits);
  const int column_lane = threadIdx.x & (shape.column_threads() - 1);
  const int nonzero_lane = (threadIdx.x & (shape.group_size() - 1)) >> shape.column_bits;
  const thread_columns<Value, V, N> columns(shape, column_lane, operands.k);

  // Threads past the end stay with their warp for the shuffles, with nothing to add and nothing to store.
  const bool active = i < items.size() && columns.any_valid();
  typename Items::item item{};
  item.partial = -1;
  if (active) item = items[i];
  vector<sum_type_t<Value>, V> sums[N] = {};
  accumulate<U>(sums, item, nonzero_lane, 1 << shape.nonzero_bits, operands, columns);
  add_over_nonzero_lanes(sums, shape);

  const bool stores = active && nonzero_lane == 0;
  const bool cut = item.partial >= 0;
  if (stores && !cut) store<Value, V, N>(operands.C + item.row * operands.ldc, sums, columns);
  if constexpr (std::is_same_v<Items, segment_items<Value>>) {
    if (any_lane(cut)) {
      finish_cut_row<Value, V, N>(items.A, item, cut, nonzero_lane, shape, sums, operands, columns);
    }
  }
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
  }
  int tile_columns() const { return threads.column_threads() * columns_per_thread; }
  std::int64_t tiles(std::int64_t k) const { return (k + tile_columns() - 1) / tile_columns(); }
};

template <class Value, class Items>
class launcher {
 public:
  launcher(const row_split_shape& shape, std::int64_t num_items) : shape_(shape), num_items_(num_items) {}

  void operator()(const Items& items, row_major_operands<Value> operands, cudaStream_t stream) const {
    // A grid has at most 65,535 tiles of columns; what is wider takes several.
    const std::int64_t widest_launch = std::int64_t{65535} * shape_.tile_columns();
    for (std::int64_t left = operands.k; left > 0; left -= widest_launch) {
      operands.k = static_cast<int>(std::min(left, widest_launch));
      launch_tiles(items, operands, stream);
      operands.B += operands.k;
      operands.C += operands.k;
    }
  }

 private:
  void launch_tiles(const Items& items, const row_major_operands<Value>& operands, cudaStream_t stream) const {
    switch (std::min(vector_width(operands), shape_.columns_per_thread)) {
      case 8:
        return by_vectors<8>(items, operands, stream);
      case 4:
        return by_vectors<4>(items, operands, stream);
      case 2:
        return by_vectors<2>(items, operands, stream);
      default:
        return by_vectors<1>(items, operands, stream);
    }
  }

  template <int V>
  void by_vectors(const Items& items, const row_major_operands<Value>& operands, cudaStream_t stream) const {
    if constexpr (V * sizeof(Value) <= 16) {
      switch (shape_.columns_per_thread / V) {
        case 1:
          if (shape_.unroll == 8) return launch<8, V, 1>(items, operands, stream);
          return launch<4, V, 1>(items, operands, stream);
        case 2:
          if constexpr (V <= 4) return launch<4, V, 2>(items, operands, stream);
          break;
        case 4:
          if constexpr (V <= 2) return launch<4, V, 4>(items, operands, stream);
          break;
        case 8:
          if constexpr (V <= 1) return launch<4, V, 8>(items, operands, stream);
          break;
      }
    }
  }

  template <int U, int V, int N>
  void launch(const Items& items, const row_major_operands<Value>& operands, cudaStream_t stream) const {
    const std::int64_t group_size = shape_.threads.group_size();
    const std::int64_t blocks = (num_items_ * group_size + shape_.threads_per_block - 1) / shape_.threads_per_block;
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(shape_.tiles(operands.k)));
    row_split_kernel<U, Value, V, N><<<grid, shape_.threads_per_block, 0, stream>>>(items, operands, shape_.threads);
    check_launch("row_split");
  }

  row_split_shape shape_;
  std::int64_t num_items_;
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
class row_plan final : public product_plan {
 public:
  row_plan(const device_csr& matrix, stored_rows which, const product_request& request,
           const device_allocator& allocate)
      : rows_(matrix, which, request, allocate), launch_(row_split_shape(request), rows_.num_items()) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    const row_major_operands<Value> operands = make_operands<Value>(B, C);
    rows_.clear(C, layout::row_major, stream);
    if (rows_.num_items() > 0) launch_(row_items<Value>{rows_.view()}, operands, stream);
  }
  std::size_t bytes() const override { return rows_.bytes(); }
  std::vector<value_array> value_arrays() override { return {rows_.all_values()}; }

 private:
  device_rows<Value> rows_;
  launcher<Value, row_items<Value>> launch_;
};

template <class Value>
class padded_plan final : public product_plan {
 public:
  padded_plan(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : rows_(matrix, request.row_ids, allocate), launch_(row_split_shape(request), matrix.num_rows()) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    const padded_items<Value> items{static_cast<unsigned>(rows_.num_rows()), rows_.width(), rows_.row_ids(),
                                    rows_.indices(), rows_.data<Value>()};
    launch_(items, make_operands<Value>(B, C), stream);
  }
  std::size_t bytes() const override { return rows_.bytes(); }
  std::vector<value_array> value_arrays() override { return {rows_.all_values()}; }

 private:
  device_padded rows_;
  launcher<Value, padded_items<Value>> launch_;
};

template <class Value>
class segment_plan final : public product_plan {
 public:
  segment_plan(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : segments_(matrix, request, request.k, row_split_shape(request).tiles(request.k), allocate),
        launch_(row_split_shape(request), segments_.size()) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    // The workspace is as wide as the plan: a wider product is computed panel by panel.
    const row_major_operands<Value> operands = make_operands<Value>(B, C);
    for (int first = 0; first < C.num_cols; first += segments_.columns()) {
      row_major_operands<Value> panel = operands;
      panel.B += first;
      panel.C += first;
      panel.k = static_cast<int>(std::min<std::int64_t>(segments_.columns(), C.num_cols - first));
      launch_(segment_items<Value>{segments_.view()}, panel, stream);
    }
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
