// SpMV through CSR on the CPU, which all kernels on CSR share there.
#pragma once

#include "kernels/description.hpp"

namespace warploom {

prepare_cpu_function prepare_cpu_spmv_csr;

}  // namespace warploom
