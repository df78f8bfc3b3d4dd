#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"
#include "warploom/kernels/stored_offsets.hpp"
#include "warploom/row_partition.hpp"

namespace warploom {
namespace {

// Threads per row are nothing to a CPU, but what one device refuses the other does not accept.
std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  if (!request.block_threads_per_row.empty()) {
    const row_partition partition =
        partition_rows(stored_offsets(matrix, request.perm), request.parameters.at("long_row"));
    threads_per_row_of_blocks(partition, 0, request.block_threads_per_row);
  }
  return prepare_cpu_csr(matrix, request);
}

}  // namespace

product_kernel csr_blockwise() {
  return {
      .name = "blockwise",
      .format = "csr",
      .summary =
          "Gao et al. 2024: blocks of short rows as CSR-vector, each with its own threads per row, and a thread block "
          "for every long row.",
      .layouts = {layout::column_major},
      .parameters = {{"long_row", 512, {128, 256, 512, 1024}, {128, 512}, false, "nonzeros from which a row is long"},
                     {"threads_per_row",
                      0,
                      {0, 1, 2, 4, 8, 16, 32},
                      {0, 2, 4, 8, 16, 32},
                      false,
                      "threads that share a short row; 0: the mean row length of its block as a power of two"}},
      .dtypes = all_value_types,
      .from_device = true,
      .unsupported_reason = spmv_needs_int32_offsets,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = prepare_cuda_csr_blockwise,
  };
}

}  // namespace warploom
