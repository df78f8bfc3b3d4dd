// SpMV kernels that read DASP.
#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {
namespace {

product_kernel dasp(std::string name, std::string summary) {
  return {
      .name = std::move(name),
      .format = "dasp",
      .summary = std::move(summary),
      .layouts = {layout::column_major},
      .parameters =
          {{"max_length", 256, {64, 128, 256, 512}, {64, 256, 512}, true, "entries of the longest medium row"}},
      .dtypes = all_value_types,
      .permutes = false,  // the format has an order of its own
      .from_device = true,
      .unsupported_reason = spmv_needs_int32_offsets,
      .prepare_cpu = prepare_cpu_dasp,
      .prepare_cuda = prepare_cuda_dasp_cuda_core,
  };
}

}  // namespace

product_kernel dasp_tensor_core() {
  product_kernel kernel = dasp("tensor_core",
                               "DASP (Lu and Liu 2023) in one launch: blocks of long, medium and short rows are "
                               "multiplied on tensor cores. Needs compute capability 8.0.");
  kernel.dtypes = {value_type::float16, value_type::float64};
  kernel.prepare_cuda = prepare_cuda_dasp_tensor_core;
  return kernel;
}

product_kernel dasp_cuda_core() {
  return dasp("cuda_core", "The format of DASP (Lu and Liu 2023) multiplied without tensor cores, in one launch.");
}

}  // namespace warploom
