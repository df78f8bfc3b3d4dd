// SELL-C-sigma as the GPU reads it: the columns that nearly all slices have come first.
#include "device/cuda_function.hpp"
#include "kernels/description.hpp"
#include "kernels/sell/device_sell.hpp"
#include "kernels/sell/slice_height.hpp"
#include "warploom/formats/format.hpp"

namespace warploom {

std::unique_ptr<product_plan> prepare_cuda_spmv_sell_vector(const device_csr& matrix, const product_request& request,
                                                            const device_allocator& allocate) {
  const auto check_places = [&](std::int64_t places) {
    refuse_candidate("sell/vector", sell_places_reason(places, matrix.nnz()));
  };
  if (matrix.wide()) check_places(matrix.nnz());  // that many places at least, too many for it
  cuda::device_sell stored(matrix, {sell_slice_height(request), request.parameters.at("sort_window")}, check_places,
                           allocate);
  return make_cuda_slices_plan(std::move(stored).take_slices());
}

convert_on_gpu_function sell_from_csr_on_gpu;

std::unique_ptr<stored_matrix> sell_from_csr_on_gpu(const device_csr& matrix, const option_values& options) {
  const cuda::device_sell made(
      matrix, {options.integer("slice_height"), options.integer<std::int64_t>("sort_window")}, [](std::int64_t) {},
      allocate_device_memory);
  return stored(made.download());
}

}  // namespace warploom
