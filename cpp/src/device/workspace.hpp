// Memory that work on a GPU borrows for a call. Any number of threads may do so at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/runtime.hpp"

namespace warploom::cuda {

// Memory of the host that kernels write to: allocating it takes longer than computing features, so it is kept for
// the next call, whatever the device.
class pinned_memory {
 public:
  static constexpr std::size_t bytes = 32 << 10;

  pinned_memory();
  ~pinned_memory();
  pinned_memory(const pinned_memory&) = delete;
  pinned_memory& operator=(const pinned_memory&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_;
};

// Pools of their own that keep some of the freed memory: the default pool returns all of it to the driver whenever a
// stream is synchronised, and allocating it again takes longer than the kernels. What products borrow comes from
// another pool than plans and their preparation: memory that is in use counts as kept.
enum class memory_pool { plans, products };

// Makes the pool of the current device, which a product that is captured in a graph may not do.
void make_pool(memory_pool which);

// Memory of the current device for work on one stream.
class pooled_memory {
 public:
  pooled_memory(std::size_t bytes, cudaStream_t stream, memory_pool from = memory_pool::plans);
  ~pooled_memory();
  pooled_memory(pooled_memory&& other) noexcept : memory_(other.memory_), stream_(other.stream_) {
    other.memory_ = nullptr;
  }
  pooled_memory& operator=(pooled_memory&&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  cudaStream_t stream_;
};

// Work on a stream that uses memory of its owner. Declared after that memory, it is waited for before the memory goes.
class enqueued_work {
 public:
  explicit enqueued_work(cudaStream_t stream) : stream_(stream) {}
  ~enqueued_work() {
    if (!waited_for_ && cudaStreamSynchronize(stream_) != cudaSuccess) cudaGetLastError();
  }
  enqueued_work(const enqueued_work&) = delete;
  enqueued_work& operator=(const enqueued_work&) = delete;

  void wait() {
    WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream_));
    waited_for_ = true;
  }
  // After more of it has been enqueued.
  void goes_on() { waited_for_ = false; }

 private:
  cudaStream_t stream_;
  bool waited_for_ = false;
};

// Memory of the current device from a pool, to be freed with cudaFree or cudaFreeAsync.
void* allocate_from_pool(std::size_t bytes, cudaStream_t stream, memory_pool from = memory_pool::plans);

// A stream that nothing but allocations is enqueued on, so that waiting for one waits for no other work.
cudaStream_t allocation_stream(int device);

// A stream for features that are computed beside others, of whatever threads.
cudaStream_t feature_stream(int device);

// A stream on which work is recorded, one at a time, and nothing runs.
cudaStream_t recording_stream(int device);

// Memory for device_array, which work on the stream uses and nothing after it.
device_allocator pooled_allocator(cudaStream_t stream, memory_pool from = memory_pool::plans);

// A small object in GPU memory as the work that is enqueued leaves it. Synchronises.
template <class T>
T read_back(const T* from, cudaStream_t stream) {
  static_assert(sizeof(T) <= pinned_memory::bytes && std::is_trivially_copyable_v<T>);
  const pinned_memory landing;
  WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(landing.as<T>(), from, sizeof(T), cudaMemcpyDeviceToHost, stream));
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream));
  return *landing.as<T>();
}

}  // namespace warploom::cuda
