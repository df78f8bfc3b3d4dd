// Host-side helpers around the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "warploom/csr_view.hpp"
#include "warploom/device.hpp"
#include "warploom/error.hpp"

namespace warploom::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clear what is not sticky
  const auto kind = status == cudaErrorMemoryAllocation ? error_kind::out_of_memory : error_kind::device;
  throw error(kind, "", -1, std::string(what) + ": " + cudaGetErrorString(status));
}

#define WARPLOOM_CUDA_CHECK(call) ::warploom::cuda::check((call), #call)

// Reports a launch that failed; execution errors surface at the caller's next synchronisation.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

// Lets this thread do, for one scope, what may end a capture in another one where that is in its default mode.
class relaxed_capture_mode {
 public:
  relaxed_capture_mode() { changed_ = cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess; }
  ~relaxed_capture_mode() {
    if (changed_) cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  relaxed_capture_mode(const relaxed_capture_mode&) = delete;
  relaxed_capture_mode& operator=(const relaxed_capture_mode&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool changed_;
};

// Thread blocks for so many threads, or items at so many a block.
constexpr unsigned blocks_for(std::int64_t threads, int threads_per_block = 256) {
  return static_cast<unsigned>((threads + threads_per_block - 1) / threads_per_block);
}

// Calls `function` with an unsigned integer of the size of the values: enough for what only moves them.
template <class Function>
decltype(auto) dispatch_bits(value_type dtype, Function function) {
  switch (size_of(dtype)) {
    case 2:
      return function(std::uint16_t{});
    case 4:
      return function(std::uint32_t{});
    default:
      return function(std::uint64_t{});
  }
}

// An array on the device.
template <class T>
class device_array {
 public:
  device_array() = default;
  device_array(std::size_t size, const device_allocator& allocate)
      : memory_(size == 0 ? nullptr : allocate(size * sizeof(T))), size_(size) {}
  // A part of memory that was allocated for several arrays.
  device_array(const std::shared_ptr<void>& memory, std::size_t offset, std::size_t size)
      : memory_(size == 0 ? nullptr : std::shared_ptr<void>(memory, static_cast<std::byte*>(memory.get()) + offset)),
        size_(size) {}

  T* data() const { return static_cast<T*>(memory_.get()); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

 private:
  std::shared_ptr<void> memory_;
  std::size_t size_ = 0;
};

// Pieces of one allocation: a framework takes as long to allocate as it takes to convert a small matrix.
class shared_allocation {
 public:
  // Room for `bytes`, with 256 more for each of `pieces`.
  shared_allocation(std::size_t bytes, std::size_t pieces, const device_allocator& allocate)
      : memory_(allocate(bytes + 256 * pieces)) {}

  template <class T>
  device_array<T> take(std::size_t size) {
    device_array<T> piece(memory_, used_, size);
    used_ += (size * sizeof(T) + 255) / 256 * 256;
    return piece;
  }

 private:
  std::shared_ptr<void> memory_;
  std::size_t used_ = 0;
};

// A copy of `size` host elements on the device, for what comes on `stream`: an allocator may give memory that kernels
// of that stream still use, and a stream of a framework does not wait for others. The host array may go on return.
template <class T>
device_array<T> upload(const T* host, std::size_t size, const device_allocator& allocate, cudaStream_t stream) {
  device_array<T> array(size, allocate);
  if (size > 0) {
    WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(array.data(), host, array.bytes(), cudaMemcpyHostToDevice, stream));
  }
  return array;
}

inline int current_device() {
  int ordinal = 0;
  WARPLOOM_CUDA_CHECK(cudaGetDevice(&ordinal));
  return ordinal;
}

inline int device_attribute(cudaDeviceAttr attribute) {
  int value = 0;
  WARPLOOM_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, current_device()));
  return value;
}

}  // namespace warploom::cuda
