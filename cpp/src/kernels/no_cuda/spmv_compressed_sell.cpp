#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/no_cuda/no_cuda.hpp"

namespace warploom {

std::unique_ptr<product_plan> prepare_cuda_compressed_sell_vector(const csr_view&, const product_request&,
                                                                  const device_allocator&) {
  no_cuda();
}

}  // namespace warploom
