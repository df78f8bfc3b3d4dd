// What the descriptions of kernels share: how they name the entry points that the files beside them define, and answers
// that several of them give.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda_function.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// prepare_cpu_<operation>_<format> and prepare_cuda_<operation>_<format>_<kernel>.
using prepare_cpu_function = std::unique_ptr<product_plan>(const csr_view& matrix, const product_request& request);
using prepare_cuda_function = std::unique_ptr<product_plan>(const device_csr& matrix, const product_request& request,
                                                            const device_allocator& allocate);

inline const std::vector<value_type> all_value_types{value_type::float16, value_type::bfloat16, value_type::float32,
                                                     value_type::float64};

// Answers of unsupported_reason.
std::string no_reason(const matrix_summary& matrix, const product_request& request);
std::string needs_int32_offsets(const matrix_summary& matrix, const product_request& request);
// For formats with padding: refuses many times more places than nonzeros; tiny matrices may have more.
// A format whose places cost less may have `times` as many.
std::string padding_reason(std::int64_t places, std::int64_t nnz, int times = 1);

// Throws such a reason, if there is one: error_kind::parameter for the argument "candidate". `kernel` is its label.
void refuse_candidate(const std::string& kernel, const std::string& reason);

// Answer of `redundant` for SpMV kernels with threads_per_row: half as many would do for the longest row.
bool too_many_threads_per_row(const matrix_summary& matrix, const product_request& request);

}  // namespace warploom
