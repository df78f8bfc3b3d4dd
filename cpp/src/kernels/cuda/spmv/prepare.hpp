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
prepare_cuda_spmv prepare_cuda_cmrs_basic;
prepare_cuda_spmv prepare_cuda_cmrs_modified;
prepare_cuda_spmv prepare_cuda_cmrs_registers;

}  // namespace warploom
