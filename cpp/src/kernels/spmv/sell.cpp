// SpMV kernels that read SELL-C-sigma.
#include "warploom/formats/sell.hpp"

#include <limits>

#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"
#include "kernels/spmv/sell.hpp"

namespace warploom {
namespace {

std::string sell_reason(const csr_view& matrix, const product_request& request) {
  if (!request.perm.empty()) return "does not take a row permutation";
  const std::int64_t places = sell_places(matrix, sell_slice_height(request), request.parameters.at("sort_window"));
  const std::string reason = spmv_padding_reason(places, matrix.nnz());
  if (!reason.empty()) return reason;
  return places > std::numeric_limits<std::int32_t>::max() ? "needs fewer than 2^31 places" : "";
}

}  // namespace

product_kernel sell_vector() {
  return {
      .name = "vector",
      .format = "sell",
      .summary =
          "SELL-C-sigma, a warp for each slice of 32 / threads_per_row rows: every load of the matrix is coalesced.",
      .layouts = {layout::column_major},
      .parameters = {{"threads_per_row", 1, {1, 2, 4, 8, 16}, {1, 2, 4, 8}, true, "threads that share a row"},
                     {"sort_window",
                      1,
                      {1, 256, 4096, 65536},
                      {1, 256, 4096},
                      true,
                      "rows that are sorted by length together; 1: the order of the matrix"}},
      .dtypes = all_value_types,
      .permutes = false,
      .unsupported_reason = sell_reason,
      .prepare_cpu = prepare_cpu_sell,
      .prepare_cuda = prepare_cuda_sell_vector,
  };
}

}  // namespace warploom
