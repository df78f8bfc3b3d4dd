// BSR with several threads for a row of blocks. A thread loads up to 16 bytes of one row of a block, neighbouring
// threads what follows in memory, so that loads are coalesced for every block size; the threads beyond one block take
// the next blocks of the row.
#include <algorithm>
#include <string>
#include <utility>

#include "device/device_csr.hpp"
#include "kernels/bsr/device_bsr.hpp"
#include "kernels/bsr/reason.hpp"
#include "kernels/description.hpp"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/spmv_plan.hpp"

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
    for (int v = 0; v < Width; ++v)
      operand.lane[v] = column + v < num_cols ? cuda::read_only(x + column + v) : Value(0);
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
  bsr_plan(cuda::device_bsr matrix, int threads) : matrix_(std::move(matrix)), threads_(threads) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (matrix_.num_rows() == 0) return;
    cuda::dispatch_constant<2, 4, 8>(matrix_.block_size(), [&](auto size) {
      by_threads<size>(static_cast<const Value*>(x), static_cast<Value*>(y), stream);
    });
  }

  std::size_t bytes() const override { return matrix_.bytes(); }
  std::vector<value_array> value_arrays() override { return {matrix_.all_values()}; }

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
    const bool whole = matrix_.num_cols() % Size == 0 && reinterpret_cast<std::uintptr_t>(x) % vector_bytes == 0;
    if (whole) return launch<Size, Threads, true>(x, y, stream);
    launch<Size, Threads, false>(x, y, stream);
  }

  template <int Size, int Threads, bool Whole>
  void launch(const Value* x, Value* y, cudaStream_t stream) const {
    const bsr_view<Value> view{static_cast<unsigned>(matrix_.num_rows()),
                               static_cast<unsigned>(matrix_.num_cols()),
                               static_cast<unsigned>(matrix_.num_block_rows()),
                               matrix_.indptr(),
                               matrix_.indices(),
                               matrix_.template values<Value>()};
    const std::int64_t blocks = (matrix_.num_block_rows() * Threads + threads_per_block - 1) / threads_per_block;
    bsr_kernel<Size, Threads, Whole><<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(view, x, y);
    cuda::check_launch("bsr_kernel");
  }

  cuda::device_bsr matrix_;
  int threads_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_bsr_vector(const device_csr& matrix, const product_request& request,
                                                           const device_allocator& allocate) {
  const std::string label = "bsr/vector";
  if (matrix.wide()) refuse_candidate(label, "needs fewer than 2^31 places");
  const int block_size = request.parameters.at("block_size");
  const auto accept = [&](const cuda::device_bsr::sizes& sizes) {
    const std::string reason =
        bsr_reason(matrix.dtype(), {block_size, block_size}, sizes.repeats, sizes.places, matrix.nnz());
    refuse_candidate(label, reason);
  };
  cuda::device_bsr blocks(matrix, {block_size, block_size}, accept, allocate);
  blocks.forget_occupied();
  const int threads = request.parameters.at("threads_per_block_row");
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<bsr_plan<decltype(value)>>(std::move(blocks), threads);
  });
}

}  // namespace warploom
