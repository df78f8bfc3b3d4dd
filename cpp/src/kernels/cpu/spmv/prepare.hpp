// Preparation of every SpMV kernel on the CPU: the same product through the same format.
#pragma once

#include <memory>

#include "warploom/kernels/product.hpp"

namespace warploom {

// Each is called prepare_cpu_<format>.
using prepare_cpu_spmv = std::unique_ptr<product_plan>(const csr_view& matrix, const product_request& request);

prepare_cpu_spmv prepare_cpu_csr;
prepare_cpu_spmv prepare_cpu_padded_csr;
prepare_cpu_spmv prepare_cpu_packed_csr;
prepare_cpu_spmv prepare_cpu_compressed_sell;
prepare_cpu_spmv prepare_cpu_dasp;
prepare_cpu_spmv prepare_cpu_column_panels;
prepare_cpu_spmv prepare_cpu_bsr;
prepare_cpu_spmv prepare_cpu_coo;
prepare_cpu_spmv prepare_cpu_ell;
prepare_cpu_spmv prepare_cpu_hyb;
prepare_cpu_spmv prepare_cpu_sell;
prepare_cpu_spmv prepare_cpu_cmrs;

}  // namespace warploom
