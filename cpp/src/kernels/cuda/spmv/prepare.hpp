// Preparation of every SpMV kernel that runs on the GPU. kernels/no_cuda defines the same functions.
#pragma once

#include <memory>

#include "warploom/kernels/product.hpp"

namespace warploom {

// Each is called prepare_cuda_<format>_<kernel>.
using prepare_cuda_spmv = std::unique_ptr<product_plan>(const csr_view& matrix, const product_request& request,
                                                        const device_allocator& allocate);

prepare_cuda_spmv prepare_cuda_csr_scalar;
prepare_cuda_spmv prepare_cuda_csr_vector;
prepare_cuda_spmv prepare_cuda_padded_csr_vector;
prepare_cuda_spmv prepare_cuda_packed_csr_segmented_sum;
prepare_cuda_spmv prepare_cuda_csr_cusparse;
prepare_cuda_spmv prepare_cuda_coo_cusparse;
prepare_cuda_spmv prepare_cuda_compressed_sell_vector;
prepare_cuda_spmv prepare_cuda_csr_adaptive;
prepare_cuda_spmv prepare_cuda_csr_blockwise;
prepare_cuda_spmv prepare_cuda_csr_merge;
prepare_cuda_spmv prepare_cuda_dasp_tensor_core;
prepare_cuda_spmv prepare_cuda_dasp_cuda_core;
prepare_cuda_spmv prepare_cuda_column_panels_shared_x;
prepare_cuda_spmv prepare_cuda_bsr_vector;
prepare_cuda_spmv prepare_cuda_coo_segmented_sum;
prepare_cuda_spmv prepare_cuda_ell_vector;
prepare_cuda_spmv prepare_cuda_hyb_fused;
prepare_cuda_spmv prepare_cuda_sell_vector;
prepare_cuda_spmv prepare_cuda_cmrs_basic;
prepare_cuda_spmv prepare_cuda_cmrs_modified;
prepare_cuda_spmv prepare_cuda_cmrs_registers;

}  // namespace warploom
