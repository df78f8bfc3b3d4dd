#include "warploom/experiments.hpp"

#include "kernels/no_cuda/no_cuda.hpp"

namespace warploom {

std::unique_ptr<product_plan> prepare_csr_parts(std::shared_ptr<const device_csr>, const csr_parts&) { no_cuda(); }
std::unique_ptr<product_plan> prepare_cmrs_read(std::shared_ptr<const device_csr>, const cmrs_read&,
                                                const device_allocator&) {
  no_cuda();
}
double cmrs_read_occupancy(value_type, const cmrs_read&) { no_cuda(); }

}  // namespace warploom
