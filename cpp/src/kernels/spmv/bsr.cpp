// SpMV kernels that read BSR.
#include "warploom/formats/bsr.hpp"

#include <limits>

#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {
namespace {

std::string bsr_reason(const csr_view& matrix, const product_request& request) {
  if (!request.perm.empty()) return "does not take a row permutation";
  // Their sum would be rounded to float16 before it meets x.
  if (matrix.dtype == value_type::float16 && has_repeated_entries(matrix)) return "would add repeated entries up";
  const std::int64_t places = bsr_places(matrix, request.parameters.at("block_size"));
  const std::string reason = spmv_padding_reason(places, matrix.nnz());
  if (!reason.empty()) return reason;
  return places > std::numeric_limits<std::int32_t>::max() ? "needs fewer than 2^31 places" : "";
}

}  // namespace

product_kernel bsr_vector() {
  return {
      .name = "vector",
      .format = "bsr",
      .summary =
          "threads_per_block_row threads for each row of blocks. Zeros filled into a block are multiplied, as in "
          "SciPy's BSR: a NaN or infinity in x reaches every row of the blocks it meets.",
      .layouts = {layout::column_major},
      .parameters = {{"block_size", 2, {2, 4, 8}, {2, 4, 8}, true, "rows and columns of a block"},
                     {"threads_per_block_row",
                      8,
                      {4, 8, 16, 32},
                      {8, 16, 32},
                      false,
                      "threads that share a row of blocks; at least as many as it takes to load one block"}},
      .dtypes = all_value_types,
      .permutes = false,
      .unsupported_reason = bsr_reason,
      .prepare_cpu = prepare_cpu_bsr,
      .prepare_cuda = prepare_cuda_bsr_vector,
  };
}

}  // namespace warploom
