// BSR with several threads for a row of blocks. A thread loads up to 16 bytes of one row of a block, neighbouring
// threads what follows in memory, so that loads are coalesced for every block size; the threads beyond one block take
// the next blocks of the row.
#include <algorithm>
#include <vector>

#include "device/device_csr.hpp"
#include "kernels/description.hpp"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/spmv_plan.hpp"
#include "warploom/formats/bsr.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;

template <class Value>
struct bsr_view {
  unsigned num_rows;
  unsigned num_cols;
  unsigned num_block_rows;
  const std::int32_t* indptr;
  const std::int32_t* indices;
  const Value* data;
};

// How the threads of a block row share a block of `Size` rows and columns.
template <class Value, int Size>
struct block_shape {
  static constexpr int width = std::min(Size, static_cast<int>(16 / sizeof(Value)));  // values of a thread
  static constexpr int threads_per_row = Size / width;
  static constexpr int threads = Size * threads_per_row;
};

// The part of x that the values of a thread are multiplied with; places past the last column are padding.
template <bool Whole, int Width, class Value>
__device__ __forceinline__ cuda::vector<Value, Width> load_operand(const Value* x, unsigned column, unsigned num_cols) {
  if constexpr (Whole) {
    return cuda::load<Value, Width>(x + column);
  } else {
    cuda::vector<Value, Width> operand;
#pragma unroll
    for (int v = 0; v < Width; ++v) operand.lane[v] = column + v < num_cols ? __ldg(x + column + v) : Value(0);
    return operand;
  }
}

// `Whole`: x is aligned to the vectors that threads load, and the columns are a multiple of the block size.
template <int Size, int Threads, bool Whole, class Value>
__global__ void __launch_bounds__(threads_per_block)
    bsr_kernel(const bsr_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  using shape = block_shape<Value, Size>;
  constexpr int blocks_at_once = Threads / shape::threads;
  const unsigned block_row = (blockIdx.x * threads_per_block + threadIdx.x) / Threads;
  const unsigned lane = threadIdx.x % Threads;
  const unsigned place = lane % shape::threads;  // of the vectors of a block
  const unsigned i = place / shape::threads_per_row;
  const unsigned j = place % shape::threads_per_row * shape::width;
  cuda::sum_type_t<Value> sum = 0;
  if (block_row < A.num_block_rows) {  // threads past the end still take part in the shuffles
    const int end = __ldg(A.indptr + block_row + 1);
#pragma unroll 4
    for (int block = __ldg(A.indptr + block_row) + static_cast<int>(lane) / shape::threads; block < end;
         block += blocks_at_once) {
      const unsigned column = __ldg(A.indices + block) * Size + j;
      const auto value =
          cuda::load<Value, shape::width>(A.data + (std::int64_t{block} * shape::threads + place) * shape::width);
      const auto operand = load_operand<Whole, shape::width>(x, column, A.num_cols);
#pragma unroll
      for (int v = 0; v < shape::width; ++v) sum += cuda::widen(value.lane[v]) * cuda::widen(operand.lane[v]);
    }
  }
  sum = cuda::interleaved_sum<1, shape::threads_per_row>(sum);
  sum = cuda::interleaved_sum<shape::threads, Threads>(sum);
  const unsigned row = block_row * Size + i;
  const bool stores = lane < shape::threads && j == 0;
  if (stores && block_row < A.num_block_rows && row < A.num_rows) y[row] = cuda::narrow<Value>(sum);
}

template <class Value>
class bsr_plan final : public spmv_plan {
 public:
  bsr_plan(const bsr_matrix& matrix, int threads, const device_allocator& allocate)
      : num_rows_(matrix.num_rows),
        num_cols_(matrix.num_cols),
        num_block_rows_(matrix.num_block_rows()),
        block_size_(matrix.block_size),
        threads_(threads),
        indices_(cuda::upload(matrix.indices.data(), matrix.indices.size(), allocate)),
        data_(cuda::upload(reinterpret_cast<const Value*>(matrix.data.data()), matrix.places(), allocate)) {
    const std::vector<std::int32_t> indptr(matrix.indptr.begin(), matrix.indptr.end());
    indptr_ = cuda::upload(indptr.data(), indptr.size(), allocate);
  }

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (num_rows_ == 0) return;
    cuda::dispatch_constant<2, 4, 8>(block_size_, [&](auto size) {
      by_threads<size>(static_cast<const Value*>(x), static_cast<Value*>(y), stream);
    });
  }

  std::size_t bytes() const override { return indptr_.bytes() + indices_.bytes() + data_.bytes(); }

 private:
  template <int Size>
  void by_threads(const Value* x, Value* y, cudaStream_t stream) const {
    constexpr int fewest = block_shape<Value, Size>::threads;
    cuda::dispatch_constant<4, 8, 16, 32>(std::max(threads_, fewest), [&](auto threads) {
      by_alignment<Size, (threads < fewest ? fewest : threads)>(x, y, stream);
    });
  }

  template <int Size, int Threads>
  void by_alignment(const Value* x, Value* y, cudaStream_t stream) const {
    constexpr std::size_t vector_bytes = block_shape<Value, Size>::width * sizeof(Value);
    const bool whole = num_cols_ % Size == 0 && reinterpret_cast<std::uintptr_t>(x) % vector_bytes == 0;
    if (whole) return launch<Size, Threads, true>(x, y, stream);
    launch<Size, Threads, false>(x, y, stream);
  }

  template <int Size, int Threads, bool Whole>
  void launch(const Value* x, Value* y, cudaStream_t stream) const {
    const bsr_view<Value> view{static_cast<unsigned>(num_rows_),
                               static_cast<unsigned>(num_cols_),
                               static_cast<unsigned>(num_block_rows_),
                               indptr_.data(),
                               indices_.data(),
                               data_.data()};
    const std::int64_t blocks = (num_block_rows_ * Threads + threads_per_block - 1) / threads_per_block;
    bsr_kernel<Size, Threads, Whole><<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(view, x, y);
    cuda::check_launch("bsr_kernel");
  }

  std::int64_t num_rows_;
  std::int64_t num_cols_;
  std::int64_t num_block_rows_;
  int block_size_;
  int threads_;
  cuda::device_array<std::int32_t> indptr_;
  cuda::device_array<std::int32_t> indices_;
  cuda::device_array<Value> data_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_bsr_vector(const device_csr& source, const product_request& request,
                                                           const device_allocator& allocate) {
  const csr_view& matrix = source.host();
  const bsr_matrix stored = to_bsr(matrix, request.parameters.at("block_size"));
  const int threads = request.parameters.at("threads_per_block_row");
  return cuda::dispatch_device_type(matrix.dtype, [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<bsr_plan<decltype(value)>>(stored, threads, allocate);
  });
}

}  // namespace warploom
