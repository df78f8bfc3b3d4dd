// SpMV kernels that read sliced ELLPACK with compressed column indices.
#include "warploom/formats/compressed_sell.hpp"

#include <limits>

#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/compressed_sell.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {
namespace {

std::string unsupported_reason(const csr_view& matrix, const product_request& request) {
  if (matrix.num_rows > std::numeric_limits<std::int32_t>::max()) return "needs fewer than 2^31 rows";
  const std::int64_t places = compressed_sell_places(matrix, compressed_sell_options_of(request));
  const std::int64_t most = 3 * matrix.nnz() + 4096;
  return places > most ? "would store " + std::to_string(places) + " places for " + std::to_string(matrix.nnz()) +
                             " nonzeros: rows of a slice are too different in length"
                       : "";
}

}  // namespace

product_kernel compressed_sell_vector() {
  return {
      .name = "vector",
      .format = "compressed-sell",
      .summary =
          "Slices of 32 or more rows with column indices of 0 to 16 bits where they fit: a warp for each slice, "
          "a lane for each row.",
      .layouts = {layout::column_major},
      .parameters = {{"rows_per_lane", 2, {1, 2, 4}, {1, 2, 4}, true, "rows of a lane; a slice has 32 times as many"},
                     {"sort_window",
                      1,
                      {1, 256, 4096},
                      {1, 256},
                      true,
                      "consecutive rows that are sorted by length to pad less; 1: none are"},
                     {"parts", 1, {1, 2, 4, 8}, {1, 4}, true, "warps that share a slice"}},
      .dtypes = all_value_types,
      .permutes = false,
      .unsupported_reason = unsupported_reason,
      .prepare_cpu = prepare_cpu_compressed_sell,
      .prepare_cuda = prepare_cuda_compressed_sell_vector,
  };
}

}  // namespace warploom
