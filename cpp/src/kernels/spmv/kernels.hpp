// The description of every SpMV kernel, for the registry. Each stands in kernels/spmv/<format>.cpp.
#pragma once

#include "warploom/kernels/product.hpp"

namespace warploom {

product_kernel csr_scalar();
product_kernel csr_vector();
product_kernel padded_csr_vector();
product_kernel packed_csr_segmented_sum();
product_kernel csr_cusparse();
product_kernel coo_cusparse();
product_kernel compressed_sell_vector();
product_kernel csr_adaptive();
product_kernel csr_blockwise();
product_kernel csr_merge();
product_kernel dasp_tensor_core();
product_kernel dasp_cuda_core();
product_kernel column_panels_shared_x();
product_kernel bsr_vector();
product_kernel coo_segmented_sum();
product_kernel ell_vector();
product_kernel hyb_fused();
product_kernel sell_vector();
product_kernel cmrs_basic();
product_kernel cmrs_modified();
product_kernel cmrs_registers();

// Value types of kernels that work on all of them.
inline const std::vector<value_type> all_value_types{value_type::float16, value_type::float32, value_type::float64};

// Answers of unsupported_reason that several kernels share.
std::string spmv_no_reason(const csr_view& matrix, const product_request& request);
std::string spmv_needs_int32_offsets(const csr_view& matrix, const product_request& request);
// For formats with padding: refuses several times more places than nonzeros (some are fine in tiny matrices).
std::string spmv_padding_reason(std::int64_t places, std::int64_t nnz);

}  // namespace warploom
