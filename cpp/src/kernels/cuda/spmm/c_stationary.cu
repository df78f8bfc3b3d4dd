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

template <class Value, int TileWidth, int ThreadsPerRow>
__global__ void __launch_bounds__(1024)
    c_stationary_kernel(rows_view<Value> A, column_major_operands<Value> operands, std::int64_t rows_per_block) {
  const int lane = threadIdx.x % ThreadsPerRow;
  const int group = threadIdx.x / ThreadsPerRow;
  const int groups = blockDim.x / ThreadsPerRow;
  const int first_column = blockIdx.x * TileWidth;
  const int columns = min(TileWidth, operands.k - first_column);
  const Value* B = operands.B + first_column * operands.ldb;
  Value* C = operands.C + first_column * operands.ldc;

  const std::int64_t num_rows = A.num_stored_rows + A.num_empty_rows;
  const std::int64_t begin = blockIdx.y * rows_per_block;
  const std::int64_t end = min(begin + rows_per_block, num_rows);
  const std::int64_t stored_end = min(end, A.num_stored_rows);

  // The trip count is uniform over the block, so that all lanes of a warp meet in the reduction.
  for (std::int64_t first = begin; first < stored_end; first += groups) {
    const std::int64_t p = first + group;
    const bool active = p < stored_end;
    Value sums[TileWidth] = {};
    if (active) {
      const std::int64_t row_end = A.indptr[p + 1];
      if (columns == TileWidth) {
        for (std::int64_t j = A.indptr[p] + lane; j < row_end; j += ThreadsPerRow) {
          const Value a = A.data[j];
          const Value* b = B + A.indices[j];
#pragma unroll
          for (int c = 0; c < TileWidth; ++c) sums[c] += a * __ldg(b + c * operands.ldb);
        }
      } else {
        for (std::int64_t j = A.indptr[p] + lane; j < row_end; j += ThreadsPerRow) {
          const Value a = A.data[j];
          const Value* b = B + A.indices[j];
#pragma unroll
          for (int c = 0; c < TileWidth; ++c) {
            if (c < columns) sums[c] += a * __ldg(b + c * operands.ldb);
          }
        }
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

  for (std::int64_t p = max(begin, A.num_stored_rows) + threadIdx.x; p < end; p += blockDim.x) {
    Value* c = C + A.empty_rows[p - A.num_stored_rows];
    for (int column = 0; column < columns; ++column) c[column * operands.ldc] = Value{0};
  }
}

template <class Value>
class c_stationary_plan final : public spmm_plan {
 public:
  c_stationary_plan(const row_storage& rows, const spmm_request& request, const device_allocator& allocate)
      : rows_(rows, allocate),
        num_rows_(rows.num_rows),
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

  std::size_t bytes() const override { return rows_.bytes(); }

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
        <<<grid, threads, 0, stream>>>(rows_.view(), operands, rows_per_block);
    cuda::check_launch("c_stationary");
  }

  cuda::device_rows<Value> rows_;
  std::int64_t num_rows_;
  int tile_width_;
  int threads_per_row_;
  int rows_per_block_;
};

std::unique_ptr<spmm_plan> prepare(const row_storage& rows, const spmm_request& request,
                                   const device_allocator& allocate) {
  return dispatch_value_type(rows.dtype, [&](auto value) -> std::unique_ptr<spmm_plan> {
    return std::make_unique<c_stationary_plan<decltype(value)>>(rows, request, allocate);
  });
}

}  // namespace

std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_csr(const csr_view& matrix, const spmm_request& request,
                                                         const device_allocator& allocate) {
  return prepare(store_all_rows(matrix, request.perm), request, allocate);
}

std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_dcsr(const csr_view& matrix, const spmm_request& request,
                                                          const device_allocator& allocate) {
  return prepare(store_nonempty_rows(matrix, request.perm), request, allocate);
}

}  // namespace warploom
