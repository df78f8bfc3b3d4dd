// The description of every SpMV kernel, for the registry. Each stands in kernels/spmv/<format>.cpp.
#pragma once

#include "warploom/kernels/product.hpp"

namespace warploom {

product_kernel csr_scalar();
product_kernel csr_vector();
product_kernel cmrs_basic();
product_kernel cmrs_modified();
product_kernel cmrs_registers();

// Value types of kernels that work on all of them.
inline const std::vector<value_type> all_value_types{value_type::float16, value_type::float32, value_type::float64};

// Answers of unsupported_reason that several kernels share.
std::string spmv_no_reason(const csr_view& matrix, const product_request& request);
std::string spmv_needs_int32_offsets(const csr_view& matrix, const product_request& request);

}  // namespace warploom
