// SpMV kernels that read COO.
#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {
namespace {

std::string coo_reason(const csr_view& matrix, const product_request& request) {
  if (!request.perm.empty()) return "does not take a row permutation";
  // Parts of the matrix are padded by an eighth at most.
  return matrix.nnz() > (std::int64_t{1} << 30) ? "needs at most 2^30 nonzeros" : "";
}

}  // namespace

product_kernel coo_segmented_sum() {
  return {
      .name = "segmented_sum",
      .format = "coo",
      .summary =
          "Segmented sums of Bell and Garland 2009 over equal parts of the nonzeros; rows cut by the end of a part "
          "are added up in a fixed order.",
      .layouts = {layout::column_major},
      .parameters = {{"items_per_thread", 4, {4, 8, 16}, {4, 8}, false, "consecutive nonzeros of a thread"}},
      .dtypes = all_value_types,
      .permutes = false,
      .unsupported_reason = coo_reason,
      .prepare_cpu = prepare_cpu_coo,
      .prepare_cuda = prepare_cuda_coo_segmented_sum,
  };
}

}  // namespace warploom
