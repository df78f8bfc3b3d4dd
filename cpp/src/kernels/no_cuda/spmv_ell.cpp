#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/no_cuda/no_cuda.hpp"

namespace warploom {

using plan = std::unique_ptr<product_plan>;

plan prepare_cuda_ell_vector(const csr_view&, const product_request&, const device_allocator&) { no_cuda(); }

}  // namespace warploom
