// SpMV through ELL with the kernel of SELL-C-sigma.
#include "device/cuda_function.hpp"
#include "kernels/description.hpp"
#include "kernels/ell/device_ell.hpp"
#include "kernels/sell/slice_height.hpp"
#include "warploom/formats/format.hpp"

namespace warploom {

std::unique_ptr<product_plan> prepare_cuda_spmv_ell_vector(const device_csr& matrix, const product_request& request,
                                                           const device_allocator& allocate) {
  cuda::device_ell stored(matrix, matrix.summary().longest_row, sell_slice_height(request), allocate);
  return make_cuda_slices_plan(std::move(stored).take_slices());
}

convert_on_gpu_function ell_from_csr_on_gpu;

std::unique_ptr<stored_matrix> ell_from_csr_on_gpu(const device_csr& matrix, const option_values& options) {
  const std::int64_t width = matrix.summary().longest_row;
  check_width(matrix.num_rows(), matrix.nnz(), width, width, options.optional_integer("max_width"), "ELL");
  return stored(cuda::device_ell(matrix, width, 32, allocate_device_memory).download());
}

}  // namespace warploom
