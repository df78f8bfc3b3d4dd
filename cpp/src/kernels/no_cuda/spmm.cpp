// The entry points of kernels/cuda/spmm in a build without CUDA: callers carry no #ifdef, users get one clear error.
#include "kernels/cuda/spmm/prepare.hpp"
#include "kernels/no_cuda/no_cuda.hpp"

namespace warploom {

std::unique_ptr<product_plan> prepare_cuda_c_stationary_csr(const csr_view&, const product_request&,
                                                            const device_allocator&) {
  no_cuda();
}

std::unique_ptr<product_plan> prepare_cuda_c_stationary_dcsr(const csr_view&, const product_request&,
                                                             const device_allocator&) {
  no_cuda();
}

std::unique_ptr<product_plan> prepare_cuda_row_split_csr(const csr_view&, const product_request&,
                                                         const device_allocator&) {
  no_cuda();
}

std::unique_ptr<product_plan> prepare_cuda_row_split_dcsr(const csr_view&, const product_request&,
                                                          const device_allocator&) {
  no_cuda();
}

std::unique_ptr<product_plan> prepare_cuda_row_split_segmented_csr(const csr_view&, const product_request&,
                                                                   const device_allocator&) {
  no_cuda();
}

std::unique_ptr<product_plan> prepare_cuda_cusparse_csr(const csr_view&, const product_request&,
                                                        const device_allocator&) {
  no_cuda();
}

std::unique_ptr<product_plan> prepare_cuda_cusparse_coo(const csr_view&, const product_request&,
                                                        const device_allocator&) {
  no_cuda();
}

std::unique_ptr<product_plan> prepare_cuda_row_split_padded_csr(const csr_view&, const product_request&,
                                                                const device_allocator&) {
  no_cuda();
}

std::unique_ptr<product_plan> prepare_cuda_c_stationary_padded_csr(const csr_view&, const product_request&,
                                                                   const device_allocator&) {
  no_cuda();
}

std::unique_ptr<product_plan> prepare_cuda_c_stationary_segmented_csr(const csr_view&, const product_request&,
                                                                      const device_allocator&) {
  no_cuda();
}

}  // namespace warploom
