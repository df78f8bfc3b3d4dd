// Preparation of the CUDA kernels: one entry point for each row of the registry, <kernel>_<format>. Without a CUDA
// toolkit at build time, kernels/no_cuda provides the same entry points, which throw error_kind::device.
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

}  // namespace warploom
