// DASP (Lu and Liu 2023, Algorithms 2 to 5) on tensor cores, for float64 and float16.
#include "kernels/dasp/kernel.cuh"
#include "kernels/description.hpp"

namespace warploom {
namespace {

template <class Value>
using tensor_core_plan = cuda::dasp_plan<cuda::tensor_core_sums<Value>, Value>;

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_dasp_tensor_core(const device_csr& matrix,
                                                                 const product_request& request,
                                                                 const device_allocator& allocate) {
  // The instructions came with compute capability 8.0.
  if (cuda::device_attribute(cudaDevAttrComputeCapabilityMajor) < 8) {
    return prepare_cuda_spmv_dasp_cuda_core(matrix, request, allocate);
  }
  if (matrix.dtype() == value_type::float16) {
    return std::make_unique<tensor_core_plan<__half>>(matrix, request, allocate);
  }
  return std::make_unique<tensor_core_plan<double>>(matrix, request, allocate);
}

}  // namespace warploom
