// The sampled product of two dense matrices (SDDMM): for every nonzero (i, j) of a pattern the dot product of row i of
// X and row j of Y. It is the gradient of an SpMM for the values of the sparse matrix, and makes no dense intermediate.
#pragma once

#include <cstdint>

#include "warploom/csr_view.hpp"
#include "warploom/device.hpp"
#include "warploom/features.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// X [num_rows, k] and Y [num_cols, k] are row-major, `out` is [nnz] in the order of the nonzeros; all of `dtype`, in
// host memory. float16 and bfloat16 are summed in float32. The result does not depend on the number of threads.
void sampled_product(const csr_pattern& pattern, const dense_view& X, const dense_view& Y, value_type dtype, void* out);

// The same in GPU memory, enqueued on `stream`. Nothing outside of X and Y is read even if the arrays of the pattern
// have changed since they were checked. Throws error_kind::shape for rows of 4 GiB and more.
void sampled_product_cuda(const device_csr_arrays& pattern, std::int64_t nnz, const dense_view& X, const dense_view& Y,
                          value_type dtype, void* out, CUstream_st* stream);

}  // namespace warploom
