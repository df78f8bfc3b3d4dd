// Preparation of every SpMM kernel that runs on the GPU. kernels/no_cuda/spmm.cpp defines the same functions.
#pragma once

#include <memory>

#include "warploom/kernels/product.hpp"

namespace warploom {

std::unique_ptr<product_plan> prepare_cuda_c_stationary_csr(const csr_view& matrix, const product_request& request,
                                                            const device_allocator& allocate);
std::unique_ptr<product_plan> prepare_cuda_c_stationary_dcsr(const csr_view& matrix, const product_request& request,
                                                             const device_allocator& allocate);
std::unique_ptr<product_plan> prepare_cuda_row_split_csr(const csr_view& matrix, const product_request& request,
                                                         const device_allocator& allocate);
std::unique_ptr<product_plan> prepare_cuda_row_split_dcsr(const csr_view& matrix, const product_request& request,
                                                          const device_allocator& allocate);
std::unique_ptr<product_plan> prepare_cuda_row_split_segmented_csr(const csr_view& matrix,
                                                                   const product_request& request,
                                                                   const device_allocator& allocate);
std::unique_ptr<product_plan> prepare_cuda_cusparse_csr(const csr_view& matrix, const product_request& request,
                                                        const device_allocator& allocate);
std::unique_ptr<product_plan> prepare_cuda_cusparse_coo(const csr_view& matrix, const product_request& request,
                                                        const device_allocator& allocate);
std::unique_ptr<product_plan> prepare_cuda_row_split_padded_csr(const csr_view& matrix, const product_request& request,
                                                                const device_allocator& allocate);
std::unique_ptr<product_plan> prepare_cuda_c_stationary_padded_csr(const csr_view& matrix,
                                                                   const product_request& request,
                                                                   const device_allocator& allocate);
std::unique_ptr<product_plan> prepare_cuda_c_stationary_segmented_csr(const csr_view& matrix,
                                                                      const product_request& request,
                                                                      const device_allocator& allocate);

}  // namespace warploom
