#include "warploom/device.hpp"

#include "kernels/no_cuda/no_cuda.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

cuda_info query_cuda() {
  cuda_info info;
  info.error = no_cuda_message;
  return info;
}

device_guard::device_guard(int) { no_cuda(); }
device_guard::~device_guard() = default;

std::shared_ptr<void> allocate_device_memory(std::size_t) { no_cuda(); }
void fill_device(void*, int, std::size_t, CUstream_st*) { no_cuda(); }
void copy_to_device(void*, const void*, std::size_t, CUstream_st*) { no_cuda(); }
void copy_to_host(void*, const void*, std::size_t, CUstream_st*) { no_cuda(); }
void synchronize(CUstream_st*) { no_cuda(); }
std::vector<double> time_on_device(const std::function<void(CUstream_st*)>&, const timing_options&, CUstream_st*) {
  no_cuda();
}
std::shared_ptr<void> eviction_memory() { no_cuda(); }
double measure_copy_bandwidth(std::size_t) { no_cuda(); }
std::shared_ptr<const device_csr> upload_csr(const csr_view&, const device_allocator&) { no_cuda(); }
std::size_t device_csr_bytes(const device_csr&) { no_cuda(); }

}  // namespace warploom
