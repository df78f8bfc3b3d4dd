// C-stationary SpMM, column-major B and C (Mehrabi et al. 2021, Algorithm 1 and Fig. 2).
//
// A thread block keeps one tile of C: `tile_width` columns by `rows_per_block` rows (0: all rows, as in the paper). Its
// rows are striped over groups of `threads_per_row` threads (32, a warp, in the paper): group g takes the rows g,
// g + groups, ... The threads of a group take the nonzeros of a row in turn, keep one partial sum for each column of
// the tile in registers and add them up at the end of the row. No atomics: results are bitwise reproducible.
#include <algorithm>

#include "kernels/cuda/device/group.cuh"
#include "kernels/cuda/spmm/device_rows.hpp"
#include "kernels/cuda/spmm/prepare.hpp"

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

// Stored rows by their offsets, and the rows of C that have none.
template <class Value>
struct offset_rows {
  rows_view<Value> A;

  __device__ std::int64_t stored() const { return A.num_stored_rows; }
  __device__ std::int64_t size() const { return A.num_stored_rows + A.num_empty_rows; }
  __device__ std::int64_t begin(std::int64_t p) const { return A.indptr[p]; }
  __device__ int length(std::int64_t p, std::int64_t begin) const { return static_cast<int>(A.indptr[p + 1] - begin); }
  __device__ std::int64_t row_of(std::int64_t p) const { return A.row_of(p); }
  __device__ std::int64_t empty_row(std::int64_t i) const { return A.empty_rows[i]; }
  __device__ const std::int32_t* indices() const { return A.indices; }
  __device__ const Value* data() const { return A.data; }
};

// Rows of one length: where they are needs no memory access. A column of -1 is padding.
template <class Value>
struct padded_rows {
  std::int64_t num_rows;
  int width;
  const std::int32_t* row_ids;  // null: the caller's order
  const std::int32_t* column_indices;
  const Value* values;

  __device__ std::int64_t stored() const { return num_rows; }
  __device__ std::int64_t size() const { return num_rows; }
  __device__ std::int64_t begin(std::int64_t p) const { return p * width; }
  __device__ int length(std::int64_t, std::int64_t) const { return width; }
  __device__ std::int64_t row_of(std::int64_t p) const { return row_ids ? row_ids[p] : p; }
  __device__ std::int64_t empty_row(std::int64_t) const { return 0; }
  __device__ const std::int32_t* indices() const { return column_indices; }
  __device__ const Value* data() const { return values; }
};

// Adds a lane's nonzeros of a row, every ThreadsPerRow-th, times a tile of columns of B. Indices of U nonzeros are
// fetched before the first element of B is needed.
template <int ThreadsPerRow, class Value, int TileWidth>
__device__ __forceinline__ void accumulate(Value (&sums)[TileWidth], const std::int32_t* indices, const Value* data,
                                           int length, int lane, const Value* const (&B)[TileWidth], int columns) {
  constexpr int U = TileWidth >= 16 ? 1 : TileWidth >= 8 ? 2 : 4;
  for (int j = lane; j < length; j += U * ThreadsPerRow) {
    std::int32_t column[U];
    Value value[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const bool inside = j + u * ThreadsPerRow < length;
      column[u] = inside ? __ldg(indices + j + u * ThreadsPerRow) : -1;
      value[u] = inside ? __ldg(data + j + u * ThreadsPerRow) : Value{0};
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (column[u] < 0) continue;
#pragma unroll
      for (int c = 0; c < TileWidth; ++c) {
        if (c < columns) sums[c] += value[u] * __ldg(B[c] + column[u]);
      }
    }
  }
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
    Value sums[TileWidth] = {};
    if (active) {
      const std::int64_t row_begin = A.begin(p);
      const std::int32_t* indices = A.indices() + row_begin;
      const Value* data = A.data() + row_begin;
      const int length = A.length(p, row_begin);
      if (columns == TileWidth) {
        accumulate<ThreadsPerRow>(sums, indices, data, length, lane, B, TileWidth);
      } else {
        accumulate<ThreadsPerRow>(sums, indices, data, length, lane, B, columns);
      }
    }
    const auto mine = cuda::reduce_scatter<ThreadsPerRow>(sums, lane);
    if (active) {
      Value* c = C + A.row_of(p);
      cuda::for_each_owned(mine, [&](int column, Value sum) {
        if (column < columns) c[column * operands.ldc] = sum;
      });
    }
  }

  for (std::int64_t p = max(begin, A.stored()) + threadIdx.x; p < end; p += blockDim.x) {
    Value* c = C + A.empty_row(p - A.stored());
    for (int column = 0; column < columns; ++column) c[column * operands.ldc] = Value{0};
  }
}

// The rows of a matrix on the device, in one of the two forms.
template <class Value>
class offset_storage {
 public:
  offset_storage(const row_storage& rows, const device_allocator& allocate) : rows_(rows, allocate) {}
  offset_rows<Value> view() const { return {rows_.view()}; }
  std::size_t bytes() const { return rows_.bytes(); }

 private:
  cuda::device_rows<Value> rows_;
};

template <class Value>
class padded_storage {
 public:
  padded_storage(const padded_csr& matrix, const device_allocator& allocate) : rows_(matrix, allocate) {}
  padded_rows<Value> view() const {
    return {rows_.num_rows(), rows_.width(), rows_.row_ids(), rows_.indices(), rows_.data()};
  }
  std::size_t bytes() const { return rows_.bytes(); }

 private:
  cuda::device_padded<Value> rows_;
};

template <class Value, class Storage>
class c_stationary_plan final : public spmm_plan {
 public:
  template <class Matrix>
  c_stationary_plan(const Matrix& matrix, const spmm_request& request, const device_allocator& allocate)
      : storage_(matrix, allocate),
        num_rows_(matrix.num_rows),
        tile_width_(request.parameters.at("tile_width")),
        threads_per_row_(request.parameters.at("threads_per_row")),
        rows_per_block_(request.parameters.at("rows_per_block")) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    const column_major_operands<Value> operands{static_cast<const Value*>(B.data), static_cast<Value*>(C.data),
                                                B.leading_dimension, C.leading_dimension, static_cast<int>(C.num_cols)};
    switch (tile_width_) {
      case 1:
        return launch<1>(operands, stream);
      case 2:
        return launch<2>(operands, stream);
      case 4:
        return launch<4>(operands, stream);
      case 8:
        return launch<8>(operands, stream);
      default:
        return launch<16>(operands, stream);
    }
  }

  std::size_t bytes() const override { return storage_.bytes(); }

 private:
  template <int TileWidth>
  void launch(const column_major_operands<Value>& operands, cudaStream_t stream) {
    switch (threads_per_row_) {
      case 1:
        return launch<TileWidth, 1>(operands, stream);
      case 2:
        return launch<TileWidth, 2>(operands, stream);
      case 4:
        return launch<TileWidth, 4>(operands, stream);
      case 8:
        return launch<TileWidth, 8>(operands, stream);
      case 16:
        return launch<TileWidth, 16>(operands, stream);
      default:
        return launch<TileWidth, 32>(operands, stream);
    }
  }

  template <int TileWidth, int ThreadsPerRow>
  void launch(const column_major_operands<Value>& operands, cudaStream_t stream) {
    const std::int64_t rows_per_block = rows_per_block_ > 0 ? rows_per_block_ : num_rows_;
    // All rows in one block: the paper's 32 warps. Otherwise no more threads than the rows can use.
    const std::int64_t wanted = rows_per_block * ThreadsPerRow;
    const int threads =
        static_cast<int>(std::clamp<std::int64_t>((wanted + 31) / 32 * 32, 32, rows_per_block_ > 0 ? 256 : 1024));
    const dim3 grid((operands.k + TileWidth - 1) / TileWidth,
                    static_cast<unsigned>((num_rows_ + rows_per_block - 1) / rows_per_block));
    c_stationary_kernel<Value, TileWidth, ThreadsPerRow>
        <<<grid, threads, 0, stream>>>(storage_.view(), operands, rows_per_block);
    cuda::check_launch("c_stationary");
  }

  Storage storage_;
  std::int64_t num_rows_;
  int tile_width_;
  int threads_per_row_;
  int rows_per_block_;
};

template <template <class> class Storage, class Matrix>
std::unique_ptr<spmm_plan> prepare(const Matrix& matrix, const spmm_request& request,
                                   const device_allocator& allocate) {
  return dispatch_value_type(matrix.dtype, [&](auto value) -> std::unique_ptr<spmm_plan> {
    using Value = decltype(value);
    return std::make_unique<c_stationary_plan<Value, Storage<Value>>>(matrix, request, allocate);
  });
}

}  // namespace

std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_csr(const csr_view& matrix, const spmm_request& request,
                                                         const device_allocator& allocate) {
  return prepare<offset_storage>(store_all_rows(matrix, request.perm), request, allocate);
}

std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_dcsr(const csr_view& matrix, const spmm_request& request,
                                                          const device_allocator& allocate) {
  return prepare<offset_storage>(store_nonempty_rows(matrix, request.perm), request, allocate);
}

std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_padded_csr(const csr_view& matrix, const spmm_request& request,
                                                                const device_allocator& allocate) {
  return prepare<padded_storage>(to_padded(store_all_rows(matrix, request.perm)), request, allocate);
}

}  // namespace warploom
