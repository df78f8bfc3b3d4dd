#include <algorithm>

#include "device/runtime.hpp"
#include "kernels/spmm/transposing_plan.hpp"

namespace warploom::cuda {
namespace {

constexpr int tile = 32;
constexpr int rows_per_pass = 8;

// to[j * ldto + i] = from[i * ldfrom + j] for i < rows, j < cols, through a tile in shared memory so that both sides
// are read and written in full cache lines. The padding keeps the columns of the tile in different banks.
template <class Value>
__global__ void __launch_bounds__(tile* rows_per_pass)
    transpose_kernel(const Value* __restrict__ from, std::int64_t ldfrom, Value* __restrict__ to, std::int64_t ldto,
                     std::int64_t rows, std::int64_t cols) {
  __shared__ Value staged[tile][tile + 1];
  const std::int64_t first_col = std::int64_t{blockIdx.x} * tile;
  const int x = threadIdx.x % tile;
  const int y = threadIdx.x / tile;
  for (std::int64_t first_row = std::int64_t{blockIdx.y} * tile; first_row < rows;
       first_row += std::int64_t{gridDim.y} * tile) {
    __syncthreads();
#pragma unroll
    for (int r = y; r < tile; r += rows_per_pass) {
      if (first_row + r < rows && first_col + x < cols)
        staged[r][x] = __ldcs(from + (first_row + r) * ldfrom + first_col + x);
    }
    __syncthreads();
#pragma unroll
    for (int c = y; c < tile; c += rows_per_pass) {
      if (first_col + c < cols && first_row + x < rows) to[(first_col + c) * ldto + first_row + x] = staged[x][c];
    }
  }
}

template <class Value>
void transpose(const Value* from, std::int64_t ldfrom, Value* to, std::int64_t ldto, std::int64_t rows,
               std::int64_t cols, cudaStream_t stream) {
  if (rows == 0 || cols == 0) return;
  const dim3 grid(static_cast<unsigned>((cols + tile - 1) / tile),
                  static_cast<unsigned>(std::min<std::int64_t>(65535, (rows + tile - 1) / tile)));
  transpose_kernel<<<grid, tile * rows_per_pass, 0, stream>>>(from, ldfrom, to, ldto, rows, cols);
  check_launch("transpose");
}

// `Value`: an unsigned integer of the size of the values, which are only moved.
template <class Value>
class transposing_plan final : public product_plan {
 public:
  transposing_plan(std::unique_ptr<product_plan> inner, const device_csr& matrix, std::int64_t k,
                   const device_allocator& allocate)
      : inner_(std::move(inner)),
        columns_(k),
        dtype_(matrix.dtype()),
        padded_(padded_columns(k, dtype_)),
        B_(matrix.num_cols() * padded_, allocate),
        C_(matrix.num_rows() * padded_, allocate) {
    // The columns between k and `padded_` are never copied in: they are computed from these zeros and never copied out.
    fill_device(B_.data(), 0, B_.bytes(), matrix.stream());
  }

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0) return;
    for (std::int64_t first = 0; first < C.num_cols; first += columns_) {
      const std::int64_t k = std::min(columns_, C.num_cols - first);
      const std::int64_t padded = padded_columns(k, dtype_);
      transpose(static_cast<const Value*>(B.data) + first * B.leading_dimension, B.leading_dimension, B_.data(), padded,
                k, B.num_rows, stream);
      inner_->run({B_.data(), B.num_rows, padded, padded}, {C_.data(), C.num_rows, padded, padded}, stream);
      transpose(C_.data(), padded, static_cast<Value*>(C.data) + first * C.leading_dimension, C.leading_dimension,
                C.num_rows, k, stream);
    }
  }

  std::size_t bytes() const override { return inner_->bytes() + B_.bytes() + C_.bytes(); }
  std::vector<value_array> value_arrays() override { return inner_->value_arrays(); }

 private:
  std::unique_ptr<product_plan> inner_;
  std::int64_t columns_;
  value_type dtype_;
  std::int64_t padded_;
  device_array<Value> B_;
  device_array<Value> C_;
};

}  // namespace

std::unique_ptr<product_plan> make_transposing_plan(std::unique_ptr<product_plan> inner, const device_csr& matrix,
                                                    std::int64_t k, const device_allocator& allocate) {
  return dispatch_bits(matrix.dtype(), [&](auto bits) -> std::unique_ptr<product_plan> {
    return std::make_unique<transposing_plan<decltype(bits)>>(std::move(inner), matrix, k, allocate);
  });
}

}  // namespace warploom::cuda
