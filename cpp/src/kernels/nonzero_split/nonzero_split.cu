// Nonzero-split SpMM, row-major B and C. Neighbouring threads take neighbouring columns, as in row_split.
//
// A group of threads works on a segment of about `work` rows and nonzeros: whole rows, which it adds up one after the
// other while it loads four rows of B at once, whichever rows of C they belong to. So short rows keep as many bytes of
// B under way as long ones do: where row_split starts a group for every row and waits for its nonzeros, a group here
// waits once. Rows of 25 nonzeros and more gain nothing, and lose 10 to 20 % to the look-out for their ends.
//
// Rows of more than 4 `work` nonzeros are cut. Their pieces come first, a warp for each, as in row_split on segments:
// the last one to arrive adds up the partial sums of a row, in their order, or another kernel does where they are many
// (kernels/spmm/long_rows.cuh). In the order of their columns (`by_column`), those under way at the same time read the
// same part of B, which the caches then hold; the other kernel adds up all of them.
//
// The bytes are those of row_split, and 16 for each segment. With an epilogue, sums are finished where they are stored.
#include <algorithm>
#include <bit>

#include "kernels/nonzero_split/nonzero_split.hpp"
#include "kernels/row_split/row_split.cuh"
#include "kernels/spmm/transposing_plan.hpp"

namespace warploom {
namespace cuda {
namespace {

using row_split::finishing_operands;
using row_split::row_major_operands;
using row_split::segment_items;
using row_split::thread_columns;
using row_split::thread_shape;

constexpr int threads = 128;
constexpr unsigned blocks_per_multiprocessor = 8;
constexpr int rows_of_B_at_once = 4;

template <class Value>
struct shared_rows {
  segments_view<Value> pieces;  // of rows that are cut
  unsigned num_segments;
  const int4* segments;  // first row, begin, length, minus the number of rows
  const std::int32_t* indptr;
  const std::int32_t* row_ids;  // null: the caller's order
};

// What is left of a segment: the rows p .. last_row, and the nonzeros j .. last of them.
struct rows_left {
  int p;
  int last_row;
  int j;
  int last;
  int end;       // of row p
  int next_end;  // of the row after that, loaded ahead
};

template <class Value>
__device__ __forceinline__ int end_of_row(const shared_rows<Value>& rows, int p, int last_row) {
  return __ldg(rows.indptr + min(p + 1, last_row));
}

// The sums of row p are complete: they are stored, and the next row begins.
template <class Value, int V, int N, class Operands, class Columns>
__device__ __forceinline__ void finish_row(rows_left& left, vector<sum_type_t<Value>, V> (&sums)[N],
                                           const shared_rows<Value>& rows, const Operands& operands,
                                           const Columns& columns) {
  const std::int32_t row = rows.row_ids ? __ldg(rows.row_ids + left.p) : left.p;
  row_split::store_row<Value, V, N>(operands, row, sums, columns);
#pragma unroll
  for (int i = 0; i < N; ++i) sums[i] = {};
  ++left.p;
  left.end = left.next_end;
  left.next_end = end_of_row(rows, left.p + 1, left.last_row);
}

// Adds the products of the next U nonzeros, and finishes the rows that end before one of them.
template <int U, class Value, int V, int N, class Operands, class Columns>
__device__ __forceinline__ void add_next(rows_left& left, vector<sum_type_t<Value>, V> (&sums)[N],
                                         const shared_rows<Value>& rows, const Operands& operands,
                                         const Columns& columns) {
  const char* const B = reinterpret_cast<const char*>(operands.B + columns.first);
  std::int32_t column[U];
  Value value[U];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    column[u] = __ldg(rows.pieces.indices + left.j + u);
    value[u] = read_only(rows.pieces.data + left.j + u);
  }
  loaded_values<Value, V> b[U][N];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const char* row = B + std::uint64_t{static_cast<std::uint32_t>(column[u])} * operands.ldb_bytes;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (columns.valid(i)) b[u][i].load_from(reinterpret_cast<const Value*>(row) + i * columns.stride());
    }
  }
  const auto add = [&](int u) {
    const sum_type_t<Value> a = widen(value[u]);
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int v = 0; v < V; ++v) sums[i].lane[v] += a * b[u][i][v];
    }
  };
  if (left.j + U <= left.end) {
#pragma unroll
    for (int u = 0; u < U; ++u) add(u);
  } else {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      while (left.j + u == left.end) finish_row<Value>(left, sums, rows, operands, columns);
      add(u);
    }
  }
  left.j += U;
}

template <class Value, int V, int N, class Operands>
__device__ __forceinline__ void multiply_rows(unsigned i, const shared_rows<Value>& rows, const Operands& operands,
                                              const thread_shape& shape) {
  const thread_columns<Value, V, N> columns(shape, threadIdx.x & (shape.column_threads() - 1), operands.k);
  if (i >= rows.num_segments || !columns.any_valid()) return;
  const int4 segment = __ldg(rows.segments + i);
  rows_left left{segment.x, segment.x - segment.w, segment.y, segment.y + segment.z, 0, 0};
  left.end = end_of_row(rows, left.p, left.last_row);
  left.next_end = end_of_row(rows, left.p + 1, left.last_row);
  vector<sum_type_t<Value>, V> sums[N] = {};
  while (left.j + rows_of_B_at_once <= left.last) {
    add_next<rows_of_B_at_once>(left, sums, rows, operands, columns);
  }
  while (left.j < left.last) add_next<1>(left, sums, rows, operands, columns);
  while (left.p < left.last_row) finish_row<Value>(left, sums, rows, operands, columns);
}

// The first blocks work on pieces of rows, the others on whole rows.
template <class Value, int V, int N, class Operands>
__global__ void __launch_bounds__(threads, blocks_with_registers(threads, blocks_per_multiprocessor))
    nonzero_split_kernel(const shared_rows<Value> rows, const Operands operands, const thread_shape shape,
                         const unsigned blocks_of_pieces) {
  if (blockIdx.x < blocks_of_pieces) {
    const thread_shape warp{shape.column_bits, 5 - shape.column_bits};
    row_split::multiply_item<rows_of_B_at_once, Value, V, N>(segment_items<Value>{rows.pieces}, operands, warp,
                                                             warp.item(0));
  } else {
    const unsigned before = blocks_of_pieces * (threads >> shape.column_bits);
    multiply_rows<Value, V, N>(shape.item(0) - before, rows, operands, shape);
  }
}

// A thread has N vectors of V columns; as many threads as k needs, or 32, are side by side.
template <int V, int N>
thread_shape side_by_side(std::int64_t k) {
  const std::int64_t needed = std::clamp<std::int64_t>((k + V * N - 1) / (V * N), 1, 32);
  return {static_cast<int>(std::bit_width(static_cast<unsigned>(needed - 1))), 0};
}

template <int V, int N>
int tiles_of(std::int64_t k) {
  const std::int64_t tile = std::int64_t{V} * N << side_by_side<V, N>(k).column_bits;
  return static_cast<int>((k + tile - 1) / tile);
}

template <class Value>
class nonzero_split_plan final : public product_plan, public finishing_plan {
 public:
  nonzero_split_plan(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : row_ids_(request.row_ids),
        segments_(matrix, request, shape(request), std::min(request.k, widest_launch), most_tiles(request.k),
                  allocate) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    // The workspace is as wide as the plan: a wider product is computed panel by panel.
    row_major_operands<Value> panel = row_split::make_operands<Value>(B, C);
    for (std::int64_t left = C.num_cols; left > 0; left -= segments_.columns()) {
      panel.k = static_cast<int>(std::min<std::int64_t>(left, segments_.columns()));
      launch(panel, stream);
      panel.B += panel.k;
      panel.C += panel.k;
    }
  }
  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (by.bias_is_column || C.num_cols > segments_.columns()) return false;
    launch(row_split::make_operands<Value>(B, C, by), stream);
    return true;
  }
  std::size_t bytes() const override {
    return segments_.bytes() + (row_ids_ ? segments_.matrix().num_rows() * sizeof(std::int32_t) : 0);
  }
  std::vector<value_array> value_arrays() override { return {segments_.all_values()}; }

 private:
  // Columns that threads move at once where operands are aligned, and how many they take one by one where not.
  static constexpr int widest = 16 / static_cast<int>(sizeof(Value));
  static constexpr int single = 4;
  static constexpr std::int64_t widest_launch = std::int64_t{65535} * 32 * std::min(widest, single);

  static segment_shape shape(const product_request& request) {
    const int work = request.parameters.at("work");
    return segments_by_column({.segment_length = longest_whole_row * work, .joined = work},
                              request.parameters.at("by_column") != 0, pieces_of_group(1));
  }
  static std::size_t most_tiles(std::int64_t k) { return std::max(tiles_of<widest, 1>(k), tiles_of<1, single>(k)); }

  template <class Operands>
  void launch(const Operands& operands, cudaStream_t stream) const {
    if (row_split::vector_width<Value>(operands) == widest) {
      launch_vectors<widest, 1>(operands, stream);
    } else {
      launch_vectors<1, single>(operands, stream);
    }
  }

  template <int V, int N, class Operands>
  void launch_vectors(const Operands& operands, cudaStream_t stream) const {
    const thread_shape shape = side_by_side<V, N>(operands.k);
    const auto blocks_for = [](std::size_t segments, std::size_t a_block) {
      return static_cast<unsigned>((segments + a_block - 1) / a_block);
    };
    shared_rows<Value> rows{segments_.view(), 0, nullptr, segments_.matrix().indptr32(), row_ids_.get()};
    rows.pieces.num_segments = static_cast<unsigned>(segments_.num_partials());
    rows.num_segments = static_cast<unsigned>(segments_.size() - segments_.num_partials());
    rows.segments = rows.pieces.segments + segments_.num_partials();
    const unsigned blocks_of_pieces = blocks_for(rows.pieces.num_segments, threads / 32);
    const unsigned blocks = blocks_of_pieces + blocks_for(rows.num_segments, threads >> shape.column_bits);
    nonzero_split_kernel<Value, V, N>
        <<<dim3(blocks, tiles_of<V, N>(operands.k)), threads, 0, stream>>>(rows, operands, shape, blocks_of_pieces);
    check_launch("nonzero_split");
    row_split::add_long_rows(rows.pieces, operands, stream);
  }

  device_permutation row_ids_;
  device_segments<Value> segments_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<product_plan> prepare_cuda_spmm_csr_nonzero_split(const device_csr& matrix,
                                                                  const product_request& requested,
                                                                  const device_allocator& allocate) {
  return cuda::in_requested_order(matrix, requested, allocate, [&](const product_request& request) {
    return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
      return std::make_unique<cuda::nonzero_split_plan<decltype(value)>>(matrix, request, allocate);
    });
  });
}

}  // namespace warploom
