#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "device/host_transfer.hpp"
#include "device/runtime.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include "warploom/parallel.hpp"

namespace warploom::cuda {
namespace {

// Buffers are small enough that all of them stay in the last-level cache, which the bus reads from.
constexpr std::size_t buffer_bytes = 1 << 20;
constexpr int buffers_per_thread = 2;  // one is filled while the other one travels
constexpr int max_threads = 8;         // enough to fill them faster than the bus takes them
constexpr int max_rings = 2;
constexpr std::size_t bytes_per_thread = buffer_bytes / 2;  // below, waking a thread takes longer than it saves

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

// Whether a buffer has been copied from or to.
class copy_event {
 public:
  copy_event() = default;
  ~copy_event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  copy_event(const copy_event&) = delete;
  copy_event& operator=(const copy_event&) = delete;

  void record(cudaStream_t stream) {
    if (event_ == nullptr) WARPLOOM_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    WARPLOOM_CUDA_CHECK(cudaEventRecord(event_, stream));
  }
  void wait() const {
    if (event_ != nullptr) WARPLOOM_CUDA_CHECK(cudaEventSynchronize(event_));
  }

 private:
  cudaEvent_t event_ = nullptr;  // until it is recorded first
};

std::byte* allocated(void*& buffer) {
  if (buffer == nullptr) WARPLOOM_CUDA_CHECK(cudaHostAlloc(&buffer, buffer_bytes, cudaHostAllocPortable));
  return static_cast<std::byte*>(buffer);
}

// The buffers of a thread, which it fills in turn.
class staging {
 public:
  staging(thread_buffers& buffers, cudaStream_t stream) : buffers_(buffers), stream_(stream) {}

  // Room that nothing on its way is in. Small arrays share a buffer.
  std::byte* room(std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    if (used_ + bytes > buffer_bytes) turn();
    std::byte* const found = allocated(buffers_[current_]) + used_;
    used_ += (bytes + alignment - 1) / alignment * alignment;
    return found;
  }

 private:
  void turn() {
    left_[current_].record(stream_);
    current_ = (current_ + 1) % buffers_per_thread;
    used_ = 0;
    left_[current_].wait();
  }

  thread_buffers& buffers_;
  cudaStream_t stream_;
  std::array<copy_event, buffers_per_thread> left_;
  int current_ = 0;
  std::size_t used_ = 0;
};

// Pieces that threads take one after the other.
struct division {
  std::size_t piece_bytes;
  std::int64_t threads;

  // One or two for each thread, but not so small that enqueueing them counts.
  explicit division(std::size_t bytes)
      : piece_bytes(std::clamp(std::bit_floor(bytes / max_threads), buffer_bytes / 4, buffer_bytes)),
        threads(std::clamp<std::int64_t>(bytes / bytes_per_thread, 1, std::min(max_threads, num_threads()))) {}

  std::int64_t pieces_of(std::size_t bytes) const {
    return static_cast<std::int64_t>((bytes + piece_bytes - 1) / piece_bytes);
  }
};

// Calls work(thread, its buffers) on the calling thread and on those that come to help. What is on its way when
// one of them fails has left the buffers before this throws.
template <class Work>
void share(std::int64_t threads, cudaStream_t stream, const Work& work) {
  const int device = current_device();
  const borrowed_ring buffers;
  std::atomic<std::int64_t> next{0};
  std::mutex failing;
  std::exception_ptr failure;
  work_together(static_cast<int>(threads) - 1, [&] {
    try {
      WARPLOOM_CUDA_CHECK(cudaSetDevice(device));
      work(buffers.of_thread(next++));
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failing);
      if (!failure) failure = std::current_exception();
    }
  });
  const cudaError_t left = cudaStreamSynchronize(stream);
  if (failure) std::rethrow_exception(failure);
  WARPLOOM_CUDA_CHECK(left);
}

void copy_piece(const host_array& array, std::size_t begin, std::size_t bytes, staging& buffers, cudaStream_t stream) {
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
  std::size_t bytes = 0;
  for (const host_array& array : arrays) bytes += array.bytes;
  const division divided(bytes);
  const auto pieces_of = [&](const host_array& array) { return divided.pieces_of(array.bytes); };
  std::int64_t pieces = 0;
  for (const host_array& array : arrays) pieces += pieces_of(array);
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> left_of_first{pieces_of(arrays[0])};
  if (left_of_first == 0) after_first();
  share(divided.threads, stream, [&](thread_buffers& buffers) {
    staging own(buffers, stream);
    for (std::int64_t piece = next++; piece < pieces; piece = next++) {
      std::size_t of = 0;
      std::int64_t within = piece;
      for (; within >= pieces_of(arrays[of]); ++of) within -= pieces_of(arrays[of]);
      const std::size_t begin = within * divided.piece_bytes;
      copy_piece(arrays[of], begin, std::min(divided.piece_bytes, arrays[of].bytes - begin), own, stream);
      if (of == 0 && --left_of_first == 0) after_first();
    }
  });
}

void download_array(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  const division divided(bytes);
  const std::int64_t pieces = divided.pieces_of(bytes);
  std::atomic<std::int64_t> next{0};
  share(divided.threads, stream, [&](thread_buffers& buffers) {
    std::array<copy_event, buffers_per_thread> arrived;
    const auto bytes_of = [&](std::int64_t piece) {
      return std::min(divided.piece_bytes, bytes - piece * divided.piece_bytes);
    };
    const auto enqueue = [&](std::int64_t piece, int buffer) {
      if (piece >= pieces) return;
      const std::byte* const begin = static_cast<const std::byte*>(from) + piece * divided.piece_bytes;
      WARPLOOM_CUDA_CHECK(
          cudaMemcpyAsync(allocated(buffers[buffer]), begin, bytes_of(piece), cudaMemcpyDeviceToHost, stream));
      arrived[buffer].record(stream);
    };
    // One piece is on its way while the one before is copied.
    std::int64_t piece = next++;
    enqueue(piece, 0);
    for (int buffer = 0; piece < pieces; buffer = 1 - buffer) {
      const std::int64_t following = next++;
      enqueue(following, 1 - buffer);
      arrived[buffer].wait();
      std::memcpy(static_cast<std::byte*>(to) + piece * divided.piece_bytes, buffers[buffer], bytes_of(piece));
      piece = following;
    }
  });
}

}  // namespace warploom::cuda

namespace warploom {

namespace {
constexpr std::size_t bytes_worth_sharing = std::size_t{1} << 20;
}

void upload(void* to, const void* from, std::size_t bytes) {
  if (bytes < bytes_worth_sharing) return copy_to_device(to, from, bytes, nullptr);
  const cuda::host_array array{from, to, bytes};
  cuda::upload_arrays({&array, 1}, nullptr, [] {});
}

void download(void* to, const void* from, std::size_t bytes) {
  if (bytes < bytes_worth_sharing) return copy_to_host(to, from, bytes, nullptr);
  cuda::download_array(to, from, bytes, nullptr);
}

}  // namespace warploom
