// SpMV kernels that read HYB.
#include "warploom/formats/hyb.hpp"

#include <algorithm>
#include <limits>

#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {
namespace {

std::string hyb_reason(const csr_view& matrix, const product_request& request) {
  if (!request.perm.empty()) return "does not take a row permutation";
  const int asked = request.parameters.at("width");
  const std::int64_t width = asked == 0 ? hyb_width(matrix) : std::min<std::int64_t>(asked, longest_row(matrix));
  const std::string reason = spmv_padding_reason(width * matrix.num_rows, matrix.nnz());
  if (!reason.empty()) return reason;
  const bool fits = std::max(width * (matrix.num_rows + 31), matrix.nnz()) <= std::numeric_limits<std::int32_t>::max();
  return fits ? "" : "needs fewer than 2^31 places";
}

}  // namespace

product_kernel hyb_fused() {
  return {
      .name = "fused",
      .format = "hyb",
      .summary = "HYB of Bell and Garland 2009 in one launch: the warp of some rows also adds what they have in COO.",
      .layouts = {layout::column_major},
      .parameters = {{"width",
                      0,
                      {0, 1, 2, 4, 8, 16, 32, 64},
                      {0},
                      true,
                      "entries of a row that ELL holds; 0: as many as max(a third of the rows, 4096) rows fill"},
                     {"threads_per_row", 1, {1, 2, 4, 8}, {1, 2, 4}, false, "threads that share a row of ELL"}},
      .dtypes = all_value_types,
      .permutes = false,
      .unsupported_reason = hyb_reason,
      .prepare_cpu = prepare_cpu_hyb,
      .prepare_cuda = prepare_cuda_hyb_fused,
  };
}

}  // namespace warploom
