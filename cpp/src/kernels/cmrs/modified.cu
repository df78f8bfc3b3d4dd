// CMRS with padded strips (Koza et al. 2014, Sec. 6.7 and 10): a warp multiplies a strip group by group. Since a group
// holds at most `modulo` entries of a row, in consecutive places, their threads differ in lane % modulo: that many
// partial sums of each row are enough, instead of 32.
#include "kernels/cmrs/device_cmrs.hpp"
#include "kernels/cmrs/places.cuh"
#include "kernels/description.hpp"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"

namespace warploom {
namespace {

constexpr unsigned warp_size = 32;
constexpr unsigned warps_per_block = 4;
constexpr unsigned min_blocks = 10;  // on a multiprocessor: leaves registers for four groups in flight

template <int N, bool Packed, class Value>
__device__ __forceinline__ void add_groups(const cuda::cmrs_places<Packed, true, Value>& places, unsigned first,
                                           unsigned end, const Value* __restrict__ x,
                                           cuda::sum_type_t<Value>* partial_sums) {
  unsigned row[N];
  cuda::sum_type_t<Value> product[N];
  places.multiply(first, warp_size, end, x, row, product);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (row[i] != cuda::no_row) partial_sums[row[i]] += product[i];
    cuda::sync_warp();  // the next group may add to the same sums from other lanes
  }
}

// `height` and `modulo` are powers of two with at least 32 partial sums between them.
template <bool Packed, class Value>
__global__ void __launch_bounds__(warps_per_block* warp_size,
                                  cuda::blocks_with_registers(warps_per_block* warp_size, min_blocks))
    cmrs_modified_kernel(unsigned num_rows, unsigned num_strips, unsigned height, unsigned modulo,
                         const std::int32_t* __restrict__ strip_ptr, cuda::cmrs_places<Packed, true, Value> places,
                         const Value* __restrict__ x, Value* __restrict__ y) {
  using sum_type = cuda::sum_type_t<Value>;
  extern __shared__ double buffer[];
  const unsigned warp = threadIdx.x / warp_size;
  const unsigned lane = threadIdx.x % warp_size;
  const unsigned strip = blockIdx.x * warps_per_block + warp;
  if (strip >= num_strips) return;  // whole warps
  const unsigned begin = strip_ptr[strip];
  const unsigned end = strip_ptr[strip + 1];  // a whole number of groups later
  const unsigned num_sums = height * modulo;
  sum_type* const sums = reinterpret_cast<sum_type*>(buffer) + warp * num_sums;
  for (unsigned i = lane; i < num_sums; i += warp_size) sums[i] = 0;
  cuda::sync_warp();

  sum_type* const partial_sums = sums + lane % modulo * height;
  cuda::for_each_run(begin, end, warp_size,
                     [&](auto runs, unsigned first) { add_groups<runs>(places, first + lane, end, x, partial_sums); });

  // Lane l adds up row l % height, and row 32 + l as well where a strip has more than 32.
  const unsigned stride = max(height, warp_size);
  for (unsigned offset = lane; offset < stride; offset += warp_size) {
    sum_type sum = 0;
#pragma unroll 4
    for (unsigned i = offset; i < num_sums; i += stride) sum += sums[i];
    sum = cuda::interleaved_sum(sum, height);
    const unsigned row = strip * height + offset;
    if (offset < height && row < num_rows) y[row] = cuda::narrow<Value>(sum);
  }
}

template <class Value>
class cmrs_modified_plan final : public cuda::cmrs_plan {
 public:
  using cuda::cmrs_plan::cmrs_plan;

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (matrix_.num_rows() == 0) return;
    matrix_.packed() ? launch<true>(x, y, stream) : launch<false>(x, y, stream);
  }

 private:
  template <bool Packed>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    const unsigned blocks = (matrix_.num_strips() + warps_per_block - 1) / warps_per_block;
    const std::size_t shared = sizeof(cuda::sum_type_t<Value>) * warps_per_block * matrix_.height() * matrix_.modulo();
    cmrs_modified_kernel<Packed><<<blocks, warps_per_block * warp_size, shared, stream>>>(
        matrix_.num_rows(), matrix_.num_strips(), matrix_.height(), matrix_.modulo(), matrix_.strip_ptr(),
        matrix_.places<Packed, true, Value>(), static_cast<const Value*>(x), static_cast<Value*>(y));
    cuda::check_launch("cmrs_modified_kernel");
  }
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_cmrs_modified(const device_csr& matrix, const product_request& request,
                                                              const device_allocator& allocate) {
  return cuda::make_cmrs_plan<cmrs_modified_plan>(matrix, request, allocate);
}

}  // namespace warploom
