// DASP without tensor cores, for all value types.
#include "kernels/dasp/kernel.cuh"
#include "kernels/description.hpp"

namespace warploom {

std::unique_ptr<product_plan> prepare_cuda_spmv_dasp_cuda_core(const device_csr& matrix, const product_request& request,
                                                               const device_allocator& allocate) {
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    using Value = decltype(value);
    return std::make_unique<cuda::dasp_plan<cuda::cuda_core_sums<Value>, Value>>(matrix, request, allocate);
  });
}

}  // namespace warploom
