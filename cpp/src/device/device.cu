#include <cuda_runtime.h>

#include <map>
#include <mutex>

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

device_guard::device_guard(int ordinal) {
  previous_ = cuda::current_device();
  if (ordinal != previous_) WARPLOOM_CUDA_CHECK(cudaSetDevice(ordinal));
}

device_guard::~device_guard() { cudaSetDevice(previous_); }

std::shared_ptr<void> allocate_device_memory(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const int device = cuda::current_device();
  const cudaStream_t stream = cuda::allocation_stream(device);
  void* memory = cuda::allocate_from_pool(bytes, stream);
  // The memory may be used on any stream as soon as this returns.
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream));
  return std::shared_ptr<void>(memory, [device](void* p) {
    // cudaFree waits for work that may still read the memory, on whatever stream that runs.
    int previous = 0;
    if (cudaGetDevice(&previous) != cudaSuccess) return;
    if (previous != device) cudaSetDevice(device);
    cudaFree(p);
    if (previous != device) cudaSetDevice(previous);
  });
}

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

void synchronize(CUstream_st* stream) { WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream)); }

}  // namespace warploom
