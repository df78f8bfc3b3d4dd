// Preparation of every SpMM kernel that runs on the GPU. kernels/no_cuda/spmm.cpp defines the same functions.
#pragma once

#include <memory>

#include "warploom/kernels/spmm.hpp"

namespace warploom {

#define WARPLOOM_DECLARE_PREPARE(name)                                                      \
  std::unique_ptr<spmm_plan> name(const csr_view& matrix, const spmm_request& request,      \
                                  const device_allocator& allocate)

WARPLOOM_DECLARE_PREPARE(prepare_cuda_c_stationary_csr);
WARPLOOM_DECLARE_PREPARE(prepare_cuda_c_stationary_dcsr);
WARPLOOM_DECLARE_PREPARE(prepare_cuda_row_split_csr);
WARPLOOM_DECLARE_PREPARE(prepare_cuda_row_split_dcsr);
WARPLOOM_DECLARE_PREPARE(prepare_cuda_row_split_segmented_csr);
WARPLOOM_DECLARE_PREPARE(prepare_cuda_cusparse_csr);
WARPLOOM_DECLARE_PREPARE(prepare_cuda_cusparse_coo);

#undef WARPLOOM_DECLARE_PREPARE

}  // namespace warploom
