// The GPU in a build without CUDA: there is none, and using it is one clear error. device.hpp promises the rest.
#include "device/replay.hpp"
#include "device/stream_order.hpp"
#include "device/value_maps.hpp"
#include "kernels/finishing.hpp"
#include "permutations/device_community.hpp"
#include "permutations/device_load_orders.hpp"
#include "permutations/device_locality_orders.hpp"
#include "permutations/device_rcm.hpp"
#include "warploom/conjugate_gradients.hpp"
#include "warploom/cublas.hpp"
#include "warploom/cusparse.hpp"
#include "warploom/device.hpp"
#include "warploom/error.hpp"
#include "warploom/features.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {
namespace {

constexpr const char* no_cuda_message =
    "this build of warploom has no CUDA kernels; reinstall it with a CUDA toolkit (nvcc) on the PATH, or use "
    "device='cpu'";

[[noreturn]] void no_cuda() { throw error(error_kind::device, "device", -1, no_cuda_message); }

}  // namespace

cuda_info query_cuda() {
  cuda_info info;
  info.error = no_cuda_message;
  return info;
}

int current_device() { no_cuda(); }

device_guard::device_guard(int) { no_cuda(); }
device_guard::~device_guard() = default;

std::shared_ptr<void> allocate_device_memory(std::size_t) { no_cuda(); }
std::shared_ptr<void> borrow_device_memory(std::size_t) { no_cuda(); }
std::shared_ptr<void> allocate_pinned_memory(std::size_t) { no_cuda(); }
pool_bytes memory_in_pools() { no_cuda(); }
void release_unused_memory() {}
void fill_device(void*, int, std::size_t, CUstream_st*) { no_cuda(); }
void copy_to_device(void*, const void*, std::size_t, CUstream_st*) { no_cuda(); }
void copy_to_host(void*, const void*, std::size_t, CUstream_st*) { no_cuda(); }
void copy_from_pinned(void*, const void*, std::size_t, CUstream_st*) { no_cuda(); }
void copy_to_pinned(void*, const void*, std::size_t, CUstream_st*) { no_cuda(); }
void upload(void*, const void*, std::size_t) { no_cuda(); }
void download(void*, const void*, std::size_t) { no_cuda(); }
void synchronize(CUstream_st*) { no_cuda(); }
void wait_for_device() noexcept {}

bool is_captured(CUstream_st*) noexcept { return false; }
stream_order::~stream_order() = default;
void stream_order::change_to(CUstream_st*) {}
void stream_order::note(CUstream_st*) noexcept {}
std::unique_ptr<recorded_work> recorded_work::record(const std::function<void(CUstream_st*)>&) noexcept {
  return nullptr;
}
recorded_work::~recorded_work() = default;
void recorded_work::launch(CUstream_st*) const { no_cuda(); }
std::vector<double> time_on_device(const std::function<void(CUstream_st*)>&, const timing_options&, CUstream_st*) {
  no_cuda();
}
std::shared_ptr<void> eviction_memory() { no_cuda(); }
double measure_copy_bandwidth(std::size_t) { no_cuda(); }
std::shared_ptr<const device_csr> upload_csr(const csr_view&, const device_allocator&) { no_cuda(); }
std::shared_ptr<const device_csr> view_csr(const device_csr_view&, const device_allocator&) { no_cuda(); }
device_permutation upload_permutation(std::span<const std::int32_t>, const device_allocator&) { no_cuda(); }
std::vector<std::int32_t> download_permutation(const device_permutation&, const device_csr&) { no_cuda(); }
std::shared_ptr<const device_csr> permute_csr(const device_csr&, const device_permutation&, const device_allocator&) {
  no_cuda();
}
device_permutation plain_permutation_on_gpu(const device_csr&, const geometry&, const device_allocator&) { no_cuda(); }
device_permutation flipped_permutation_on_gpu(const device_csr&, const geometry&, const device_allocator&) {
  no_cuda();
}
device_permutation lpt_permutation_on_gpu(const device_csr&, const geometry&, const device_allocator&) { no_cuda(); }
device_permutation rcm_permutation_on_gpu(const device_csr&, const geometry&, const device_allocator&) { no_cuda(); }
device_permutation community_permutation_on_gpu(const device_csr&, const geometry&, const device_allocator&) {
  no_cuda();
}
device_permutation degree_permutation_on_gpu(const device_csr&, const geometry&, const device_allocator&) { no_cuda(); }
device_permutation minhash_permutation_on_gpu(const device_csr&, const geometry&, const device_allocator&) {
  no_cuda();
}
const matrix_summary& summary_of(const device_csr&) { no_cuda(); }
const csr_view& host_copy(const device_csr&) { no_cuda(); }
CUstream_st* stream_of(const device_csr&) { no_cuda(); }
std::vector<double> spmv_features_of(const device_csr&) { no_cuda(); }
std::size_t device_csr_bytes(const device_csr&) { no_cuda(); }
device_csr_arrays arrays_of(const device_csr&) { no_cuda(); }

std::shared_ptr<const device_csr> own_pattern(const device_csr&, const device_allocator&) { no_cuda(); }
const void* values_of(const device_csr&) { no_cuda(); }
std::shared_ptr<const device_csr> with_positions(const device_csr&, int, CUstream_st*, const device_allocator&) {
  no_cuda();
}
std::shared_ptr<const device_csr> with_values(const device_csr&, const void*, CUstream_st*, const device_allocator&) {
  no_cuda();
}
void read_positions(const device_value_map&, value_type, int, CUstream_st*) { no_cuda(); }
position_counts count_positions(std::span<const device_value_map>, std::int64_t, CUstream_st*) { no_cuda(); }
void share_patterns(device_value_map&, CUstream_st*, const device_allocator&) { no_cuda(); }
void move_values(const device_value_map&, const void*, value_type, CUstream_st*) { no_cuda(); }

void run_then_finish_on_gpu(product_plan&, const dense_view&, const finished_product&, CUstream_st*) { no_cuda(); }
void dot_on_gpu(const dense_view&, const dense_view&, layout, value_type, void*, CUstream_st*) { no_cuda(); }

struct conjugate_gradients::memory {};
conjugate_gradients::conjugate_gradients(plan& of) : plan_(of) { no_cuda(); }
conjugate_gradients::~conjugate_gradients() = default;
void conjugate_gradients::start(const conjugate_gradients_vectors&, CUstream_st*) { no_cuda(); }
void conjugate_gradients::step(const conjugate_gradients_vectors&, std::int64_t, CUstream_st*) { no_cuda(); }
double conjugate_gradients::squared_residual(CUstream_st*) const { no_cuda(); }
double conjugate_gradients::curvature(CUstream_st*) const { no_cuda(); }

void load_cublas(const std::string&) { no_cuda(); }
std::string cublas_version() { return ""; }
void load_cusparse(const std::string&) { no_cuda(); }
std::string cusparse_version() { return ""; }

}  // namespace warploom
