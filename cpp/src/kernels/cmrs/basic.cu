// CMRS (Koza et al. 2014, Algorithm 1): a warp multiplies a strip; each of its threads has a partial sum of every row
// in shared memory. The paper's kernel relies on warps in lock step; this one synchronises them explicitly.
//
// Partial sums of a row are adjacent, one bank for each thread, so that adding to them has no bank conflicts
// whatever rows the threads are at.
#include "kernels/cmrs/device_cmrs.hpp"
#include "kernels/cmrs/places.cuh"
#include "kernels/description.hpp"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"

namespace warploom {
namespace {

constexpr unsigned warp_size = 32;
constexpr unsigned warps_per_block = 4;  // the paper's optimum
constexpr unsigned min_blocks = 10;      // on a multiprocessor: leaves registers for four places in flight

// Sums the columns of a H x 32 array: lane l gets its part of row l % H, and the lanes of a row add up.
template <int H, class Sum>
__device__ __forceinline__ Sum sum_of_row(const Sum* partial_sums, unsigned lane) {
  const unsigned row = lane % H;
  Sum sum = 0;
#pragma unroll
  for (unsigned k = 0; k < H; ++k) {  // each lane at another column: no bank conflicts
    sum += partial_sums[row * warp_size + lane / H * H + (k + row) % H];
  }
  return cuda::interleaved_sum<H>(sum);
}

template <int N, bool Packed, class Value>
__device__ __forceinline__ void add_products(const cuda::cmrs_places<Packed, false, Value>& places, unsigned first,
                                             unsigned end, const Value* __restrict__ x,
                                             cuda::sum_type_t<Value>* partial_sums) {
  unsigned row[N];
  cuda::sum_type_t<Value> product[N];
  places.multiply(first, warp_size, end, x, row, product);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (row[i] != cuda::no_row) partial_sums[row[i] * warp_size] += product[i];
  }
}

template <int H, bool Packed, class Value>
__global__ void __launch_bounds__(warps_per_block* warp_size,
                                  cuda::blocks_with_registers(warps_per_block* warp_size, min_blocks))
    cmrs_basic_kernel(unsigned num_rows, unsigned num_strips, const std::int32_t* __restrict__ strip_ptr,
                      cuda::cmrs_places<Packed, false, Value> places, const Value* __restrict__ x,
                      Value* __restrict__ y) {
  using sum_type = cuda::sum_type_t<Value>;
  __shared__ sum_type buffer[warps_per_block][H * warp_size];
  const unsigned warp = threadIdx.x / warp_size;
  const unsigned lane = threadIdx.x % warp_size;
  const unsigned strip = blockIdx.x * warps_per_block + warp;
  if (strip >= num_strips) return;  // whole warps
  const unsigned begin = strip_ptr[strip];
  const unsigned end = strip_ptr[strip + 1];
  sum_type* const partial_sums = buffer[warp] + lane;
#pragma unroll
  for (int row = 0; row < H; ++row) partial_sums[row * warp_size] = 0;

  cuda::for_each_run(begin, end, warp_size, [&](auto runs, unsigned first) {
    add_products<runs>(places, first + lane, end, x, partial_sums);
  });

  cuda::sync_warp();
  const sum_type sum = sum_of_row<H>(buffer[warp], lane);
  const unsigned row = strip * H + lane;
  if (lane < H && row < num_rows) y[row] = cuda::narrow<Value>(sum);
}

template <class Value>
class cmrs_basic_plan final : public cuda::cmrs_plan {
 public:
  using cuda::cmrs_plan::cmrs_plan;

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (matrix_.num_rows() == 0) return;
    cuda::dispatch_constant<1, 2, 4, 8, 16>(matrix_.height(), [&](auto height) {
      matrix_.packed() ? launch<height, true>(x, y, stream) : launch<height, false>(x, y, stream);
    });
  }

 private:
  template <int H, bool Packed>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    const unsigned blocks = (matrix_.num_strips() + warps_per_block - 1) / warps_per_block;
    cmrs_basic_kernel<H, Packed><<<blocks, warps_per_block * warp_size, 0, stream>>>(
        matrix_.num_rows(), matrix_.num_strips(), matrix_.strip_ptr(), matrix_.places<Packed, false, Value>(),
        static_cast<const Value*>(x), static_cast<Value*>(y));
    cuda::check_launch("cmrs_basic_kernel");
  }
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_cmrs_basic(const device_csr& matrix, const product_request& request,
                                                           const device_allocator& allocate) {
  return cuda::make_cmrs_plan<cmrs_basic_plan>(matrix, request, allocate);
}

}  // namespace warploom
