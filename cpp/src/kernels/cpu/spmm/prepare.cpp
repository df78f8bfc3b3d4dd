#include "kernels/cpu/spmm/prepare.hpp"

#include "kernels/cpu/spmm/c_stationary.hpp"
#include "kernels/cpu/spmm/padded.hpp"
#include "kernels/cpu/spmm/row_split.hpp"
#include "kernels/cpu/spmm/rows_plan.hpp"
#include "kernels/cpu/spmm/segmented.hpp"
#include "kernels/cpu/spmm/transposing_plan.hpp"

namespace warploom {
namespace {

// In column-major order B and C are turned round about a row-major plan.
std::unique_ptr<product_plan> in_requested_order(std::unique_ptr<product_plan> plan, const csr_view& matrix,
                                                 layout order) {
  return order == layout::row_major ? std::move(plan) : make_cpu_transposing_plan(std::move(plan), matrix.dtype);
}

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_c_stationary_csr(const csr_view& matrix, const product_request& request) {
  return make_rows_plan(store_all_rows(matrix, request.perm), request.parameters, c_stationary);
}

std::unique_ptr<product_plan> prepare_cpu_c_stationary_dcsr(const csr_view& matrix, const product_request& request) {
  return make_rows_plan(store_nonempty_rows(matrix, request.perm), request.parameters, c_stationary);
}

std::unique_ptr<product_plan> prepare_cpu_row_split_csr(const csr_view& matrix, const product_request& request) {
  auto plan = make_rows_plan(store_all_rows(matrix, request.perm), request.parameters, row_split);
  return in_requested_order(std::move(plan), matrix, request.order);
}

std::unique_ptr<product_plan> prepare_cpu_row_split_dcsr(const csr_view& matrix, const product_request& request) {
  auto plan = make_rows_plan(store_nonempty_rows(matrix, request.perm), request.parameters, row_split);
  return in_requested_order(std::move(plan), matrix, request.order);
}

std::unique_ptr<product_plan> prepare_cpu_row_split_segmented_csr(const csr_view& matrix,
                                                                  const product_request& request) {
  // In the stored order: the ranges are balanced already, and neighbouring rows find their rows of B in the cache.
  constexpr bool longest_first = false;
  auto plan = make_segmented_plan(
      to_segmented(store_all_rows(matrix, request.perm), request.parameters.at("segment_length"), longest_first));
  return in_requested_order(std::move(plan), matrix, request.order);
}

std::unique_ptr<product_plan> prepare_cpu_c_stationary_segmented_csr(const csr_view& matrix,
                                                                     const product_request& request) {
  return prepare_cpu_row_split_segmented_csr(matrix, request);  // column-major by turning B and C round
}

std::unique_ptr<product_plan> prepare_cpu_c_stationary_padded_csr(const csr_view& matrix,
                                                                  const product_request& request) {
  return make_padded_plan(to_padded(store_all_rows(matrix, request.perm)), layout::column_major);
}

std::unique_ptr<product_plan> prepare_cpu_row_split_padded_csr(const csr_view& matrix, const product_request& request) {
  auto plan = make_padded_plan(to_padded(store_all_rows(matrix, request.perm)), layout::row_major);
  return in_requested_order(std::move(plan), matrix, request.order);
}

}  // namespace warploom
