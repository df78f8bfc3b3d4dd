// Preparation of the CPU kernels: one entry point for each row of the registry, <kernel>_<format>.
#pragma once

#include <memory>

#include "warploom/kernels/product.hpp"

namespace warploom {

std::unique_ptr<product_plan> prepare_cpu_c_stationary_csr(const csr_view& matrix, const product_request& request);
std::unique_ptr<product_plan> prepare_cpu_c_stationary_dcsr(const csr_view& matrix, const product_request& request);
std::unique_ptr<product_plan> prepare_cpu_row_split_csr(const csr_view& matrix, const product_request& request);
std::unique_ptr<product_plan> prepare_cpu_row_split_dcsr(const csr_view& matrix, const product_request& request);
std::unique_ptr<product_plan> prepare_cpu_row_split_segmented_csr(const csr_view& matrix,
                                                                  const product_request& request);
std::unique_ptr<product_plan> prepare_cpu_row_split_padded_csr(const csr_view& matrix, const product_request& request);
std::unique_ptr<product_plan> prepare_cpu_c_stationary_padded_csr(const csr_view& matrix,
                                                                  const product_request& request);
std::unique_ptr<product_plan> prepare_cpu_c_stationary_segmented_csr(const csr_view& matrix,
                                                                     const product_request& request);

}  // namespace warploom
