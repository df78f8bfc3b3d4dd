// Equal shares of rows and nonzeros: row-major B and C, a group of threads side by side on the columns adds up
// neighbouring rows, or a piece of a long one. Column-major operands are transposed before and after.
#include "kernels/nonzero_split/nonzero_split.hpp"

#include "kernels/description.hpp"
#include "kernels/row_split/row_split.hpp"
#include "kernels/spmm/segments.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmm_csr_nonzero_split;

namespace {

const parameter work{"work", 32, {16, 32, 64}, {32}, false, "rows and nonzeros that a group of threads works on"};

bool orders_nothing(const matrix_summary& matrix, const product_request& request) {
  return request.parameters.at("by_column") != 0 &&
         matrix.longest_row <= longest_whole_row * request.parameters.at("work");
}

}  // namespace

product_kernel spmm_csr_nonzero_split() {
  return {
      .op = operation::spmm,
      .name = "nonzero_split",
      .format = "csr",
      .summary =
          "Threads side by side on the columns of C take equal shares of rows and nonzeros; column-major B and C "
          "are transposed.",
      .source = "own",
      .layouts = {layout::row_major, layout::column_major},
      .parameters = {work, by_column({0, 1})},
      .dtypes = all_value_types,
      .from_device = true,
      .for_large = true,
      .redundant = orders_nothing,
      .unsupported_reason = needs_int32_offsets,
      .prepare_cpu = prepare_cpu_spmm_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_csr_nonzero_split),
  };
}

}  // namespace warploom
