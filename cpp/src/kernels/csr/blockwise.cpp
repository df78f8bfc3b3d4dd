#include "kernels/csr/blockwise_work.hpp"
#include "kernels/csr/spmv.hpp"
#include "kernels/csr/stored_offsets.hpp"
#include "warploom/row_partition.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_csr_blockwise;

namespace {

// The CPU does not use threads per row, but a request that one device refuses, the other refuses too.
std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  if (const auto given = request.input(blockwise_input); !given.empty()) {
    const row_partition partition =
        partition_rows(stored_offsets(matrix, request.perm), request.parameters.at("long_row"));
    threads_per_row_of_blocks(partition, 0, given);
  }
  return prepare_cpu_spmv_csr(matrix, request);
}

}  // namespace

product_kernel spmv_csr_blockwise() {
  return {
      .op = operation::spmv,
      .name = "blockwise",
      .format = "csr",
      .summary =
          "Gao et al. 2024: blocks of short rows as CSR-vector, each with its own threads per row, and a thread block "
          "for every long row.",
      .source = "Gao et al. 2024",
      .layouts = {layout::column_major},
      .parameters = {{"long_row", 512, {128, 256, 512, 1024}, {128, 512}, false, "nonzeros from which a row is long"},
                     {"threads_per_row",
                      0,
                      {0, 1, 2, 4, 8, 16, 32},
                      {0, 2, 4, 8, 16, 32},
                      false,
                      "threads that share a short row; 0: the mean row length of its block as a power of two"}},
      .inputs = {{blockwise_input,
                  "threads for each row of every block of short rows, in the order of the partition: 1, 2, 4, 8, 16 "
                  "or 32 each (Gao et al. 2024, Sec. 4.3)"}},
      .dtypes = all_value_types,
      .from_device = true,
      .redundant = too_many_threads_per_row,
      .unsupported_reason = needs_int32_offsets,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_csr_blockwise),
  };
}

}  // namespace warploom
