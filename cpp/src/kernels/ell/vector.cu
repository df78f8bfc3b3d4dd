// ELL as the GPU reads it: slices of 32 / threads_per_row rows, all as wide as the longest row, so that neighbouring
// threads read neighbouring places also where several share a row.
#include "device/device_csr.hpp"
#include "kernels/description.hpp"
#include "kernels/sell/slice_height.hpp"
#include "kernels/sell/slices.hpp"
#include "warploom/formats/ell.hpp"

namespace warploom {

std::unique_ptr<product_plan> prepare_cuda_spmv_ell_vector(const device_csr& source, const product_request& request,
                                                           const device_allocator& allocate) {
  const csr_view& matrix = source.host();
  const ell_matrix stored = to_ell_of_width(matrix, longest_row(matrix));
  return make_cuda_slices_plan(slices_of(stored, sell_slice_height(request)), allocate);
}

}  // namespace warploom
