// Plans of row_split by value type and layout.
#include "kernels/description.hpp"
#include "kernels/device/values.cuh"
#include "kernels/row_split/plans.hpp"
#include "kernels/spmm/transposing_plan.hpp"

namespace warploom {
namespace {

using cuda::row_split::stored_as;

// Column-major B and C are transposed before and after a row-major product.
std::unique_ptr<product_plan> prepare(const device_csr& matrix, stored_as form, const product_request& requested,
                                      const device_allocator& allocate) {
  return cuda::in_requested_order(matrix, requested, allocate, [&](const product_request& request) {
    return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) {
      return cuda::row_split::make_plan<decltype(value)>(matrix, form, request, allocate);
    });
  });
}

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmm_csr_row_split(const device_csr& matrix, const product_request& request,
                                                              const device_allocator& allocate) {
  return prepare(matrix, stored_as::all_rows, request, allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmm_dcsr_row_split(const device_csr& matrix, const product_request& request,
                                                               const device_allocator& allocate) {
  return prepare(matrix, stored_as::nonempty_rows, request, allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmm_segmented_csr_row_split(const device_csr& matrix,
                                                                        const product_request& request,
                                                                        const device_allocator& allocate) {
  return prepare(matrix, stored_as::segments, request, allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmm_padded_csr_row_split(const device_csr& matrix,
                                                                     const product_request& request,
                                                                     const device_allocator& allocate) {
  return prepare(matrix, stored_as::padded_rows, request, allocate);
}

}  // namespace warploom
