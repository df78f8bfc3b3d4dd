#include <cuda_runtime.h>
#include <pthread.h>

#include <atomic>
#include <map>
#include <mutex>

#include "device/release.hpp"
#include "device/runtime.hpp"
#include "device/workspace.hpp"
#include "warploom/device.hpp"

namespace warploom {

namespace {

cuda_info ask_for_devices() {
  cuda_info info;
  info.built = true;
  info.architectures = WARPLOOM_CUDA_ARCHITECTURES;
  cudaRuntimeGetVersion(&info.runtime_version);
  cudaDriverGetVersion(&info.driver_version);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    info.error = cudaGetErrorString(status);
    return info;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) continue;
    info.devices.push_back({properties.name, properties.major, properties.minor, properties.multiProcessorCount,
                            properties.totalGlobalMem, static_cast<std::size_t>(properties.l2CacheSize),
                            properties.sharedMemPerBlockOptin});
  }
  return info;
}

}  // namespace

cuda_info query_cuda() {
  // Properties take about a millisecond, and GPUs that were found do not change.
  static std::mutex asking;
  static cuda_info known;
  const std::lock_guard<std::mutex> lock(asking);
  if (known.devices.empty()) known = ask_for_devices();
  return known;
}

int current_device() { return cuda::current_device(); }

namespace {

std::atomic<bool> used_here{false}, used_by_parent{false};

// In a child that was forked after CUDA was used, calls fail one way or another, and page-locked memory is not there.
void refuse_forked_children() {
  if (used_by_parent.load(std::memory_order_relaxed)) {
    throw error(error_kind::device, "", -1,
                "this process was forked from one that has used the GPU, and CUDA does not work in it: start processes "
                "by spawning them");
  }
  if (used_here.load(std::memory_order_relaxed)) return;
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] {
    if (used_here) used_by_parent = true;
  });
  used_here = true;
}

}  // namespace

device_guard::device_guard(int ordinal) {
  refuse_forked_children();
  const int current = cuda::current_device();
  if (ordinal == current) return;
  WARPLOOM_CUDA_CHECK(cudaSetDevice(ordinal));
  previous_ = current;
}

device_guard::~device_guard() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

namespace {

// The memory as a pointer that frees it after all work on the device that is current now, while that is current again.
std::shared_ptr<void> own(void* memory, void (*free)(void*)) {
  const int device = cuda::current_device();
  return std::shared_ptr<void>(memory, [device, free](void* p) {
    int previous = 0;
    if (cudaGetDevice(&previous) != cudaSuccess) return;
    if (previous != device) cudaSetDevice(device);
    release_after_work(device, p, free);
    if (previous != device) cudaSetDevice(previous);
  });
}

}  // namespace

void wait_for_device() noexcept {
  const cuda::relaxed_capture_mode mode;
  if (cudaDeviceSynchronize() != cudaSuccess) cudaGetLastError();
}

std::shared_ptr<void> allocate_device_memory(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const cudaStream_t stream = cuda::allocation_stream(cuda::current_device());
  void* const memory = cuda::allocate_from_pool(bytes, stream);
  // The memory may be used on any stream as soon as this returns.
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream));
  // Memory of a pool is handed out again at once: cudaFree does not wait for work that may still read it, as it does
  // with memory of cudaMalloc.
  return own(memory, [](void* p) {
    const cuda::relaxed_capture_mode mode;
    cudaFree(p);
  });
}

std::shared_ptr<void> borrow_device_memory(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  try {
    return cuda::pooled_allocator(nullptr, cuda::memory_pool::products)(bytes);
  } catch (const error& failure) {
    if (failure.kind() != error_kind::out_of_memory) throw;
  }
  return cuda::pooled_allocator(nullptr)(bytes);  // the other pool may have a gap that is large enough
}

std::shared_ptr<void> allocate_pinned_memory(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  device_allocation_may_fail(bytes);
  void* memory = nullptr;
  WARPLOOM_CUDA_CHECK(cudaMallocHost(&memory, bytes));
  return own(memory, [](void* p) {
    const cuda::relaxed_capture_mode mode;
    cudaFreeHost(p);
  });
}

namespace {

constexpr int copying_threads = 256;

// A thread for each 16 bytes, and one for those behind.
__global__ void __launch_bounds__(copying_threads) copy_kernel(const std::byte* from, std::byte* to, unsigned bytes) {
  const unsigned i = blockIdx.x * copying_threads + threadIdx.x, whole = bytes / sizeof(uint4);
  if (i < whole) {
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  } else if (i == whole) {
    for (unsigned j = whole * sizeof(uint4); j < bytes; ++j) to[j] = from[j];
  }
}

// A kernel copies what is small: a copying engine takes longer to wait for one, and one for it.
void copy_over_bus(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, CUstream_st* stream) {
  constexpr std::size_t small = std::size_t{512} << 10;
  if (bytes == 0) return;
  if (bytes > small) return WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kind, stream));
  copy_kernel<<<cuda::blocks_for(bytes / sizeof(uint4) + 1, copying_threads), copying_threads, 0, stream>>>(
      static_cast<const std::byte*>(from), static_cast<std::byte*>(to), static_cast<unsigned>(bytes));
  cuda::check_launch("copy_kernel");
}

}  // namespace

void fill_device(void* to, int byte, std::size_t bytes, CUstream_st* stream) {
  if (bytes > 0) WARPLOOM_CUDA_CHECK(cudaMemsetAsync(to, byte, bytes, stream));
}

void copy_to_device(void* to, const void* from, std::size_t bytes, CUstream_st* stream) {
  if (bytes > 0) WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

void copy_to_host(void* to, const void* from, std::size_t bytes, CUstream_st* stream) {
  if (bytes > 0) WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
  synchronize(stream);
}

void copy_from_pinned(void* to, const void* from, std::size_t bytes, CUstream_st* stream) {
  copy_over_bus(to, from, bytes, cudaMemcpyHostToDevice, stream);
}

void copy_to_pinned(void* to, const void* from, std::size_t bytes, CUstream_st* stream) {
  copy_over_bus(to, from, bytes, cudaMemcpyDeviceToHost, stream);
}

void synchronize(CUstream_st* stream) { WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream)); }

}  // namespace warploom
