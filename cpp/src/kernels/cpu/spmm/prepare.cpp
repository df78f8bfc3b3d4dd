#include "kernels/cpu/spmm/prepare.hpp"

#include "kernels/cpu/spmm/c_stationary.hpp"
#include "kernels/cpu/spmm/row_split.hpp"
#include "kernels/cpu/spmm/rows_plan.hpp"
#include "kernels/cpu/spmm/segmented.hpp"

namespace warploom {

std::unique_ptr<spmm_plan> prepare_cpu_c_stationary_csr(const csr_view& matrix, const spmm_request& request) {
  return make_rows_plan(store_all_rows(matrix, request.perm), request.parameters, c_stationary);
}

std::unique_ptr<spmm_plan> prepare_cpu_c_stationary_dcsr(const csr_view& matrix, const spmm_request& request) {
  return make_rows_plan(store_nonempty_rows(matrix, request.perm), request.parameters, c_stationary);
}

std::unique_ptr<spmm_plan> prepare_cpu_row_split_csr(const csr_view& matrix, const spmm_request& request) {
  return make_rows_plan(store_all_rows(matrix, request.perm), request.parameters, row_split);
}

std::unique_ptr<spmm_plan> prepare_cpu_row_split_dcsr(const csr_view& matrix, const spmm_request& request) {
  return make_rows_plan(store_nonempty_rows(matrix, request.perm), request.parameters, row_split);
}

std::unique_ptr<spmm_plan> prepare_cpu_row_split_segmented_csr(const csr_view& matrix, const spmm_request& request) {
  // In the stored order: the ranges are balanced already, and neighbouring rows find their rows of B in the cache.
  constexpr bool longest_first = false;
  return make_segmented_plan(
      to_segmented(store_all_rows(matrix, request.perm), request.parameters.at("segment_length"), longest_first));
}

}  // namespace warploom
