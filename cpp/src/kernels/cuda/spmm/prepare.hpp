// Preparation of every SpMM kernel that runs on the GPU. kernels/no_cuda/spmm.cpp defines the same functions.
#pragma once

#include <memory>

#include "warploom/kernels/spmm.hpp"

namespace warploom {

std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_csr(const csr_view& matrix, const spmm_request& request,
                                                         const device_allocator& allocate);
std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_dcsr(const csr_view& matrix, const spmm_request& request,
                                                          const device_allocator& allocate);
std::unique_ptr<spmm_plan> prepare_cuda_row_split_csr(const csr_view& matrix, const spmm_request& request,
                                                      const device_allocator& allocate);
std::unique_ptr<spmm_plan> prepare_cuda_row_split_dcsr(const csr_view& matrix, const spmm_request& request,
                                                       const device_allocator& allocate);
std::unique_ptr<spmm_plan> prepare_cuda_row_split_segmented_csr(const csr_view& matrix, const spmm_request& request,
                                                                const device_allocator& allocate);
std::unique_ptr<spmm_plan> prepare_cuda_cusparse_csr(const csr_view& matrix, const spmm_request& request,
                                                     const device_allocator& allocate);
std::unique_ptr<spmm_plan> prepare_cuda_cusparse_coo(const csr_view& matrix, const spmm_request& request,
                                                     const device_allocator& allocate);
std::unique_ptr<spmm_plan> prepare_cuda_row_split_padded_csr(const csr_view& matrix, const spmm_request& request,
                                                             const device_allocator& allocate);
std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_padded_csr(const csr_view& matrix, const spmm_request& request,
                                                                const device_allocator& allocate);
std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_segmented_csr(const csr_view& matrix, const spmm_request& request,
                                                                   const device_allocator& allocate);

}  // namespace warploom
