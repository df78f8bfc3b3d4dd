// SpMV kernels that read column panels.
#include "kernels/spmv/column_panels.hpp"

#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {
namespace {

// With more, what the panels add (their parts of x, and the sums of a row in each) outweighs what they save.
constexpr std::int64_t most_panels = 64;

std::string shared_x_unsupported(const csr_view& matrix, const product_request& request) {
  const std::int64_t width = panel_columns(matrix, requested_panel_bytes(request));
  const std::int64_t panels = (matrix.num_cols + width - 1) / width;
  if (panels > most_panels) {
    return "has too many columns: " + std::to_string(panels) + " panels of x, at most " + std::to_string(most_panels);
  }
  return spmv_needs_int32_offsets(matrix, request);
}

}  // namespace

product_kernel column_panels_shared_x() {
  return {
      .name = "shared_x",
      .format = "column-panels",
      .summary =
          "A thread block keeps a panel of x in shared memory and sums the rows of its share of the panel; a second "
          "launch adds the sums of a row over the panels. For large irregular matrices.",
      .layouts = {layout::column_major},
      .parameters = {{"panel_kb",
                      224,
                      {1, 16, 64, 96, 144, 224},
                      {96, 224},
                      true,
                      "kilobytes of x in a panel, as far as the GPU has them and 16 bits number its columns"}},
      .dtypes = all_value_types,
      .permutes = false,  // y is written row by row, and the rows of a panel are cut evenly whatever their order
      .unsupported_reason = shared_x_unsupported,
      .prepare_cpu = prepare_cpu_column_panels,
      .prepare_cuda = prepare_cuda_column_panels_shared_x,
  };
}

}  // namespace warploom
