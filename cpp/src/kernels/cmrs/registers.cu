// CMRS without shared memory: `threads_per_strip` neighbouring threads multiply a strip. Each keeps a sum of every row
// in registers, and shuffles add them such that every thread is left with one row. Short strips need only a part of a
// warp.
#include <bit>

#include "kernels/cmrs/device_cmrs.hpp"
#include "kernels/cmrs/places.cuh"
#include "kernels/description.hpp"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"

namespace warploom {
namespace {

constexpr unsigned threads_per_block = 128;
constexpr unsigned min_blocks = 10;  // on a multiprocessor: leaves registers for four places in flight

// Adds `product` to `sum` where the rows are the same. A branch in C++ would do, but the compiler makes indexing of a
// chain of them and moves the sums to memory.
__device__ __forceinline__ void add_if_same(float& sum, float product, unsigned row, unsigned row_of_sum) {
  asm("{ .reg .pred same; setp.eq.u32 same, %2, %3; @same add.f32 %0, %0, %1; }"
      : "+f"(sum)
      : "f"(product), "r"(row), "r"(row_of_sum));
}
__device__ __forceinline__ void add_if_same(double& sum, double product, unsigned row, unsigned row_of_sum) {
  asm("{ .reg .pred same; setp.eq.u32 same, %2, %3; @same add.f64 %0, %0, %1; }"
      : "+d"(sum)
      : "d"(product), "r"(row), "r"(row_of_sum));
}

template <int N, int H, bool Packed, class Value>
__device__ __forceinline__ void add_products(const cuda::cmrs_places<Packed, false, Value>& places, unsigned first,
                                             unsigned stride, unsigned end, const Value* __restrict__ x,
                                             cuda::sum_type_t<Value> (&sums)[H]) {
  unsigned row[N];
  cuda::sum_type_t<Value> product[N];
  places.multiply(first, stride, end, x, row, product);
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (unsigned row_of_sum = 0; row_of_sum < H; ++row_of_sum) {
      add_if_same(sums[row_of_sum], product[i], row[i], row_of_sum);
    }
  }
}

// threads_per_strip is 2 to the power of log_threads, and at least H.
template <int H, bool Packed, class Value>
__global__ void __launch_bounds__(threads_per_block, cuda::blocks_with_registers(threads_per_block, min_blocks))
    cmrs_registers_kernel(unsigned num_rows, unsigned num_strips, unsigned log_threads,
                          const std::int32_t* __restrict__ strip_ptr, cuda::cmrs_places<Packed, false, Value> places,
                          const Value* __restrict__ x, Value* __restrict__ y) {
  using sum_type = cuda::sum_type_t<Value>;
  const unsigned threads_per_strip = 1u << log_threads;
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const auto strip = static_cast<unsigned>(thread >> log_threads);
  const unsigned lane = threadIdx.x % threads_per_strip;
  unsigned begin = 0;
  unsigned end = 0;
  if (strip < num_strips) {  // threads past the last strip still take part in the shuffles
    begin = strip_ptr[strip];
    end = strip_ptr[strip + 1];
  }

  sum_type sums[H] = {};
  cuda::for_each_run(begin, end, threads_per_strip, [&](auto runs, unsigned first) {
    add_products<runs>(places, first + lane, threads_per_strip, end, x, sums);
  });

  sum_type sum = cuda::interleaved_reduce_scatter(sums, lane);  // of row lane % H
  sum = cuda::interleaved_sum(sum, H, threads_per_strip);
  const unsigned row = strip * H + lane;
  if (strip < num_strips && lane < H && row < num_rows) y[row] = cuda::narrow<Value>(sum);
}

template <class Value>
class cmrs_registers_plan final : public cuda::cmrs_plan {
 public:
  cmrs_registers_plan(cuda::device_cmrs matrix, int threads_per_strip)
      : cmrs_plan(std::move(matrix)), threads_per_strip_(std::max(threads_per_strip, matrix_.height())) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (matrix_.num_rows() == 0) return;
    cuda::dispatch_constant<2, 4, 8>(matrix_.height(), [&](auto height) {
      matrix_.packed() ? launch<height, true>(x, y, stream) : launch<height, false>(x, y, stream);
    });
  }

 private:
  template <int H, bool Packed>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    const std::uint64_t threads = std::uint64_t{matrix_.num_strips()} * threads_per_strip_;
    const auto blocks = static_cast<unsigned>((threads + threads_per_block - 1) / threads_per_block);
    cmrs_registers_kernel<H, Packed><<<blocks, threads_per_block, 0, stream>>>(
        matrix_.num_rows(), matrix_.num_strips(), std::bit_width(static_cast<unsigned>(threads_per_strip_)) - 1,
        matrix_.strip_ptr(), matrix_.places<Packed, false, Value>(), static_cast<const Value*>(x),
        static_cast<Value*>(y));
    cuda::check_launch("cmrs_registers_kernel");
  }

  int threads_per_strip_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_cmrs_registers(const device_csr& matrix, const product_request& request,
                                                               const device_allocator& allocate) {
  return cuda::make_cmrs_plan<cmrs_registers_plan>(matrix, request, allocate,
                                                   request.parameters.at("threads_per_strip"));
}

}  // namespace warploom
