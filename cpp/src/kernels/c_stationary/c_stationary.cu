// C-stationary SpMM, column-major B and C (Mehrabi et al. 2021, Algorithm 1 and Fig. 2).
//
// A thread block keeps one tile of C: `tile_width` columns by `rows_per_block` rows (0: all rows, as in the paper). Its
// rows are distributed cyclically over groups of `threads_per_row` threads (32, a warp, in the paper): group g takes g,
// g + groups, ... The threads of a group take the nonzeros of a row in turn, keep one partial sum for each column of
// the tile in registers and add them at the end of the row. No atomics: results are bitwise reproducible. Values of two
// bytes are summed in float32 and rounded once.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "device/device_csr.hpp"
#include "kernels/description.hpp"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/padded_csr/device_padded.hpp"
#include "kernels/spmm/device_rows.hpp"
#include "kernels/spmm/device_segments.hpp"
#include "kernels/spmm/long_rows.cuh"

namespace warploom {
namespace {

using cuda::rows_view;

template <class Value>
struct column_major_operands {
  const Value* B;
  Value* C;
  std::int64_t ldb;
  std::int64_t ldc;
  int k;
};

// The nonzeros a group of threads works on, and where their sums go: row `row` of C, or slot `partial` of the
// workspace.
template <class Value>
struct work_item {
  const std::int32_t* indices;
  const Value* data;
  int length;
  std::int32_t row;
  int partial;
};

// Stored rows by their offsets, and the rows of C that have none.
template <class Value>
struct offset_rows {
  rows_view<Value> A;

  __device__ std::int64_t stored() const { return A.num_stored_rows; }
  __device__ std::int64_t size() const { return A.num_stored_rows + A.num_empty_rows; }
  __device__ std::int64_t empty_row(std::int64_t i) const { return A.empty_rows[i]; }
  __device__ work_item<Value> operator[](std::int64_t p) const {
    const std::int64_t begin = A.indptr[p];
    const int length = static_cast<int>(A.indptr[p + 1] - begin);
    return {A.indices + begin, A.data + begin, length, static_cast<std::int32_t>(A.row_of(p)), -1};
  }
};

// Rows of one length: where they are needs no memory access. A column of -1 is padding.
template <class Value>
struct padded_rows {
  std::int64_t num_rows;
  int width;
  const std::int32_t* row_ids;  // null: the caller's order
  const std::int32_t* indices;
  const Value* data;

  __device__ std::int64_t stored() const { return num_rows; }
  __device__ std::int64_t size() const { return num_rows; }
  __device__ std::int64_t empty_row(std::int64_t) const { return 0; }
  __device__ work_item<Value> operator[](std::int64_t p) const {
    return {indices + p * width, data + p * width, width, row_ids ? row_ids[p] : static_cast<std::int32_t>(p), -1};
  }
};

// Segments of rows; empty rows are segments of length 0.
template <class Value>
struct segment_rows {
  cuda::segments_view<Value> A;

  __device__ std::int64_t stored() const { return A.num_segments; }
  __device__ std::int64_t size() const { return A.num_segments; }
  __device__ std::int64_t empty_row(std::int64_t) const { return 0; }
  __device__ work_item<Value> operator[](std::int64_t i) const {
    const int4 s = __ldg(A.segments + i);
    return {A.indices + s.y, A.data + s.y, s.z, s.x, s.w};
  }
};

// Adds a lane's nonzeros of a row, every ThreadsPerRow-th, times a tile of columns of B. Indices of U nonzeros are
// fetched before the first element of B is needed.
template <int ThreadsPerRow, class Value, int TileWidth>
__device__ __forceinline__ void accumulate(cuda::sum_type_t<Value> (&sums)[TileWidth], const work_item<Value>& item,
                                           int lane, const Value* const (&B)[TileWidth], int columns) {
  constexpr int U = TileWidth >= 16 ? 1 : TileWidth >= 8 ? 2 : 4;
  for (int j = lane; j < item.length; j += U * ThreadsPerRow) {
    std::int32_t column[U];
    cuda::sum_type_t<Value> value[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const bool inside = j + u * ThreadsPerRow < item.length;
      column[u] = inside ? __ldg(item.indices + j + u * ThreadsPerRow) : -1;
      value[u] = inside ? cuda::widen(cuda::read_only(item.data + j + u * ThreadsPerRow)) : 0;
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (column[u] < 0) continue;
#pragma unroll
      for (int c = 0; c < TileWidth; ++c) {
        if (c < columns) sums[c] += value[u] * cuda::widen(cuda::read_only(B[c] + column[u]));
      }
    }
  }
}

template <class Value, int Owned>
__device__ __forceinline__ void store(const cuda::owned_sums<cuda::sum_type_t<Value>, Owned>& mine, Value* c,
                                      std::int64_t ldc, int columns) {
  cuda::for_each_owned(mine, [&](int column, cuda::sum_type_t<Value> sum) {
    if (column < columns) c[column * ldc] = cuda::narrow<Value>(sum);
  });
}

// Stores the partial sums of one segment of a cut row and, if all the others are stored, adds them. Called by whole
// warps.
template <int ThreadsPerRow, class Value, int Owned>
__device__ void finish_cut_row(const cuda::segments_view<Value>& A, const work_item<Value>& item, bool cut,
                               cuda::owned_sums<cuda::sum_type_t<Value>, Owned>& mine, int first_column, Value* c,
                               std::int64_t ldc, int columns) {
  using sum_type = cuda::sum_type_t<Value>;
  const cuda::cut_row<Value> row(A, cut, item.partial, blockIdx.x, gridDim.x);
  if (cut) {
    sum_type* slot = A.slot(item.partial) + first_column;
    cuda::for_each_owned(mine, [&](int column, sum_type sum) {
      if (column < columns) __stcg(slot + column, sum);
    });
  }
  if (!row.arrives_last(cut, ThreadsPerRow)) return;
  const sum_type* slots = A.slot(row.slots.first) + first_column;
#pragma unroll
  for (int i = 0; i < Owned; ++i) {
    const int column = mine.first + i;
    sum_type sum = 0;
    if (mine.owns && column < columns) {
#pragma unroll 8
      for (int piece = 0; piece < row.slots.count; ++piece) {
        sum += __ldcg(slots + std::int64_t{piece} * A.workspace_columns + column);
      }
    }
    mine.sums[i] = sum;
  }
  store(mine, c, ldc, columns);
  row.reset(ThreadsPerRow);
}

template <class Value, int TileWidth, int ThreadsPerRow, class Rows>
__global__ void __launch_bounds__(1024)
    c_stationary_kernel(const Rows A, const column_major_operands<Value> operands, const std::int64_t rows_per_block) {
  const int lane = threadIdx.x % ThreadsPerRow;
  const int group = threadIdx.x / ThreadsPerRow;
  const int groups = blockDim.x / ThreadsPerRow;
  const int first_column = blockIdx.x * TileWidth;
  const int columns = min(TileWidth, operands.k - first_column);
  const Value* B[TileWidth];
#pragma unroll
  for (int c = 0; c < TileWidth; ++c) B[c] = operands.B + (first_column + c) * operands.ldb;
  Value* C = operands.C + first_column * operands.ldc;

  const std::int64_t begin = blockIdx.y * rows_per_block;
  const std::int64_t end = min(begin + rows_per_block, A.size());
  const std::int64_t stored_end = min(end, A.stored());

  // The trip count is uniform over the block, so that all lanes of a warp meet in the reduction.
  for (std::int64_t first = begin; first < stored_end; first += groups) {
    const std::int64_t p = first + group;
    const bool active = p < stored_end;
    cuda::sum_type_t<Value> sums[TileWidth] = {};
    work_item<Value> item{nullptr, nullptr, 0, 0, -1};
    if (active) {
      item = A[p];
      if (columns == TileWidth) {
        accumulate<ThreadsPerRow>(sums, item, lane, B, TileWidth);
      } else {
        accumulate<ThreadsPerRow>(sums, item, lane, B, columns);
      }
    }
    auto mine = cuda::reduce_scatter<ThreadsPerRow>(sums, lane);
    const bool cut = item.partial >= 0;
    if (active && !cut) store(mine, C + item.row, operands.ldc, columns);
    if constexpr (std::is_same_v<Rows, segment_rows<Value>>) {
      if (cuda::any_lane(cut)) {
        finish_cut_row<ThreadsPerRow>(A.A, item, cut, mine, first_column, C + item.row, operands.ldc, columns);
      }
    }
  }

  for (std::int64_t p = max(begin, A.stored()) + threadIdx.x; p < end; p += blockDim.x) {
    Value* c = C + A.empty_row(p - A.stored());
    for (int column = 0; column < columns; ++column) c[column * operands.ldc] = cuda::narrow<Value>(0);
  }
}

// The rows of a matrix on the device, in one of three forms. `columns`: how many a run may have at most; `clear`: what
// has to be zeroed before a run.
template <class Value, cuda::stored_rows which>
class offset_storage {
 public:
  offset_storage(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : rows_(matrix, which, request, allocate) {}
  std::int64_t num_items() const { return rows_.num_items(); }
  void clear(const dense_view& C, cudaStream_t stream) const { rows_.clear(C, layout::column_major, stream); }
  std::int64_t columns() const { return std::numeric_limits<std::int32_t>::max(); }
  offset_rows<Value> view() const { return {rows_.view()}; }
  value_array all_values() const { return rows_.all_values(); }
  std::size_t bytes() const { return rows_.bytes(); }

 private:
  cuda::device_rows<Value> rows_;
};

template <class Value>
class padded_storage {
 public:
  padded_storage(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : rows_(matrix, request.row_ids, allocate) {}
  std::int64_t num_items() const { return rows_.num_rows(); }
  void clear(const dense_view&, cudaStream_t) const {}  // every row is stored
  std::int64_t columns() const { return std::numeric_limits<std::int32_t>::max(); }
  padded_rows<Value> view() const {
    return {rows_.num_rows(), rows_.width(), rows_.row_ids(), rows_.indices(), rows_.data<Value>()};
  }
  value_array all_values() const { return rows_.all_values(); }
  std::size_t bytes() const { return rows_.bytes(); }

 private:
  cuda::device_padded rows_;
};

template <class Value>
class segment_storage {
 public:
  segment_storage(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : segments_(matrix, request, cuda::requested_segments(request, cuda::pieces_of_group(1)), request.k, request.k,
                  allocate) {}
  std::int64_t num_items() const { return static_cast<std::int64_t>(segments_.size()); }
  void clear(const dense_view&, cudaStream_t) const {}  // every row has a segment
  std::int64_t columns() const { return segments_.columns(); }
  segment_rows<Value> view() const { return {segments_.view()}; }
  value_array all_values() const { return segments_.all_values(); }
  std::size_t bytes() const { return segments_.bytes(); }

 private:
  cuda::device_segments<Value> segments_;
};

template <class Value, class Storage>
class c_stationary_plan final : public product_plan {
 public:
  c_stationary_plan(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : storage_(matrix, request, allocate),
        tile_width_(request.parameters.at("tile_width")),
        threads_per_row_(request.parameters.at("threads_per_row")),
        rows_per_block_(request.parameters.at("rows_per_block")) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    storage_.clear(C, stream);
    if (storage_.num_items() == 0) return;
    // A workspace is as wide as the plan: a wider product is computed panel by panel.
    for (std::int64_t first = 0; first < C.num_cols; first += storage_.columns()) {
      const std::int64_t k = std::min(storage_.columns(), C.num_cols - first);
      run_panel({static_cast<const Value*>(B.data) + first * B.leading_dimension,
                 static_cast<Value*>(C.data) + first * C.leading_dimension, B.leading_dimension, C.leading_dimension,
                 static_cast<int>(k)},
                stream);
    }
  }

  std::size_t bytes() const override { return storage_.bytes(); }
  std::vector<value_array> value_arrays() override { return {storage_.all_values()}; }

 private:
  void run_panel(const column_major_operands<Value>& operands, cudaStream_t stream) {
    cuda::dispatch_constant<1, 2, 4, 8, 16>(tile_width_, [&](auto width) { launch<width>(operands, stream); });
  }

  template <int TileWidth>
  void launch(const column_major_operands<Value>& operands, cudaStream_t stream) {
    cuda::dispatch_constant<1, 2, 4, 8, 16, 32>(threads_per_row_,
                                                [&](auto threads) { launch<TileWidth, threads>(operands, stream); });
  }

  template <int TileWidth, int ThreadsPerRow>
  void launch(const column_major_operands<Value>& operands, cudaStream_t stream) {
    const std::int64_t rows_per_block = rows_per_block_ > 0 ? rows_per_block_ : storage_.num_items();
    // All rows in one block: the paper's 32 warps. Otherwise no more threads than the rows can use.
    const std::int64_t wanted = rows_per_block * ThreadsPerRow;
    const int threads =
        static_cast<int>(std::clamp<std::int64_t>((wanted + 31) / 32 * 32, 32, rows_per_block_ > 0 ? 256 : 1024));
    const dim3 grid((operands.k + TileWidth - 1) / TileWidth,
                    static_cast<unsigned>((storage_.num_items() + rows_per_block - 1) / rows_per_block));
    c_stationary_kernel<Value, TileWidth, ThreadsPerRow>
        <<<grid, threads, 0, stream>>>(storage_.view(), operands, rows_per_block);
    cuda::check_launch("c_stationary");
    if constexpr (std::is_same_v<Storage, segment_storage<Value>>) {
      cuda::add_long_rows(storage_.view().A, {operands.C, 1, operands.ldc}, operands.k,
                          cuda::finishing_values<Value>(epilogue{}), stream);
    }
  }

  Storage storage_;
  int tile_width_;
  int threads_per_row_;
  int rows_per_block_;
};

template <template <class> class Storage>
std::unique_ptr<product_plan> prepare(const device_csr& matrix, const product_request& request,
                                      const device_allocator& allocate) {
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    using Value = decltype(value);
    return std::make_unique<c_stationary_plan<Value, Storage<Value>>>(matrix, request, allocate);
  });
}

template <class Value>
using csr_storage = offset_storage<Value, cuda::stored_rows::all>;
template <class Value>
using dcsr_storage = offset_storage<Value, cuda::stored_rows::nonempty>;

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmm_csr_c_stationary(const device_csr& matrix,
                                                                 const product_request& request,
                                                                 const device_allocator& allocate) {
  return prepare<csr_storage>(matrix, request, allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmm_dcsr_c_stationary(const device_csr& matrix,
                                                                  const product_request& request,
                                                                  const device_allocator& allocate) {
  return prepare<dcsr_storage>(matrix, request, allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmm_padded_csr_c_stationary(const device_csr& matrix,
                                                                        const product_request& request,
                                                                        const device_allocator& allocate) {
  return prepare<padded_storage>(matrix, request, allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmm_segmented_csr_c_stationary(const device_csr& matrix,
                                                                           const product_request& request,
                                                                           const device_allocator& allocate) {
  return prepare<segment_storage>(matrix, request, allocate);
}

}  // namespace warploom
