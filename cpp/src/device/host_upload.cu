#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "device/host_upload.hpp"
#include "device/runtime.hpp"
#include "warploom/parallel.hpp"

namespace warploom::cuda {
namespace {

// Buffers are small enough that all of them stay in the last-level cache, which the bus reads from.
constexpr std::size_t buffer_bytes = 1 << 20;
constexpr int buffers_per_thread = 2;  // one is filled while the other one travels
constexpr int max_threads = 8;         // enough to fill them faster than the bus takes them
constexpr int max_rings = 2;
constexpr std::size_t bytes_per_thread = buffer_bytes / 2;  // below, starting a thread takes longer than it saves

using thread_buffers = std::array<void*, buffers_per_thread>;  // null: not allocated yet
using ring = std::array<thread_buffers, max_threads>;

// Kept memory is never freed: at exit, the driver may have shut down already. A forked child cannot use CUDA, and fails
// to allocate what it would copy to before it comes here.
struct kept_rings {
  std::mutex changing;
  std::condition_variable returned;
  std::vector<ring*> idle;
  int made = 0;
};

kept_rings& all_rings() {
  static kept_rings& all = *new kept_rings;
  return all;
}

class borrowed_ring {
 public:
  borrowed_ring() {
    kept_rings& all = all_rings();
    std::unique_lock<std::mutex> lock(all.changing);
    all.returned.wait(lock, [&] { return !all.idle.empty() || all.made < max_rings; });
    if (all.idle.empty()) {
      all.idle.reserve(max_rings);  // giving it back must not fail
      ring_ = new ring{};
      ++all.made;
    } else {
      ring_ = all.idle.back();
      all.idle.pop_back();
    }
  }
  ~borrowed_ring() {
    kept_rings& all = all_rings();
    {
      const std::lock_guard<std::mutex> lock(all.changing);
      all.idle.push_back(ring_);
    }
    all.returned.notify_one();
  }
  borrowed_ring(const borrowed_ring&) = delete;
  borrowed_ring& operator=(const borrowed_ring&) = delete;

  thread_buffers& of_thread(std::int64_t thread) const { return (*ring_)[thread]; }

 private:
  ring* ring_;
};

// The buffers of a thread, which it fills in turn.
class staging {
 public:
  staging(thread_buffers& buffers, cudaStream_t stream) : buffers_(buffers), stream_(stream) {}
  ~staging() {
    for (const cudaEvent_t event : left_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  staging(const staging&) = delete;
  staging& operator=(const staging&) = delete;

  // Room that nothing on its way is in. Small arrays share a buffer.
  std::byte* room(std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    if (used_ + bytes > buffer_bytes) turn();
    void*& buffer = buffers_[current_];
    if (buffer == nullptr) WARPLOOM_CUDA_CHECK(cudaHostAlloc(&buffer, buffer_bytes, cudaHostAllocPortable));
    std::byte* const found = static_cast<std::byte*>(buffer) + used_;
    used_ += (bytes + alignment - 1) / alignment * alignment;
    return found;
  }

 private:
  void turn() {
    cudaEvent_t& left = left_[current_];
    if (left == nullptr) WARPLOOM_CUDA_CHECK(cudaEventCreateWithFlags(&left, cudaEventDisableTiming));
    WARPLOOM_CUDA_CHECK(cudaEventRecord(left, stream_));
    current_ = (current_ + 1) % buffers_per_thread;
    used_ = 0;
    if (left_[current_] != nullptr) WARPLOOM_CUDA_CHECK(cudaEventSynchronize(left_[current_]));
  }

  thread_buffers& buffers_;
  cudaStream_t stream_;
  std::array<cudaEvent_t, buffers_per_thread> left_{};  // what was filled has arrived
  int current_ = 0;
  std::size_t used_ = 0;
};

std::int64_t pieces_of(const host_array& array) {
  return static_cast<std::int64_t>((array.bytes + buffer_bytes - 1) / buffer_bytes);
}

void copy_piece(const host_array& array, std::int64_t piece, staging& buffers, cudaStream_t stream) {
  const std::size_t begin = piece * buffer_bytes;
  const std::size_t bytes = std::min(buffer_bytes, array.bytes - begin);
  std::byte* const room = buffers.room(bytes);
  if (array.narrows) {
    const auto* from = static_cast<const std::int64_t*>(array.from) + begin / sizeof(std::int32_t);
    std::transform(from, from + bytes / sizeof(std::int32_t), reinterpret_cast<std::int32_t*>(room),
                   [](std::int64_t value) { return static_cast<std::int32_t>(value); });
  } else {
    std::memcpy(room, static_cast<const std::byte*>(array.from) + begin, bytes);
  }
  WARPLOOM_CUDA_CHECK(
      cudaMemcpyAsync(static_cast<std::byte*>(array.to) + begin, room, bytes, cudaMemcpyHostToDevice, stream));
}

}  // namespace

void upload_arrays(std::span<const host_array> arrays, cudaStream_t stream, const std::function<void()>& after_first) {
  std::int64_t pieces = 0;
  std::size_t bytes = 0;
  for (const host_array& array : arrays) {
    pieces += pieces_of(array);
    bytes += array.bytes;
  }
  const auto worth = static_cast<std::int64_t>((bytes + bytes_per_thread - 1) / bytes_per_thread);
  const std::int64_t threads = std::clamp<std::int64_t>(std::min(pieces, worth), 1, max_threads);
  const int device = current_device();
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> left_of_first{pieces_of(arrays[0])};
  if (left_of_first == 0) after_first();
  const borrowed_ring buffers;
  const auto copy_pieces = [&](std::int64_t thread) {
    WARPLOOM_CUDA_CHECK(cudaSetDevice(device));
    staging own(buffers.of_thread(thread), stream);
    for (std::int64_t piece = next++; piece < pieces; piece = next++) {
      std::size_t of = 0;
      std::int64_t within = piece;
      for (; within >= pieces_of(arrays[of]); ++of) within -= pieces_of(arrays[of]);
      copy_piece(arrays[of], within, own, stream);
      if (of == 0 && --left_of_first == 0) after_first();
    }
  };
  try {
    // Each of the ranges is a thread with buffers of its own; whoever comes late finds nothing left to do.
    parallel_for(0, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t thread = begin; thread < end; ++thread) copy_pieces(thread);
    });
  } catch (...) {
    cudaStreamSynchronize(stream);  // what is on its way may leave the buffers
    throw;
  }
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream));
}

}  // namespace warploom::cuda
