#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "device/host_transfer.hpp"
#include "device/runtime.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include "warploom/parallel.hpp"

namespace warploom::cuda {
namespace {

// Buffers are small enough that all of them stay in the last-level cache, which the bus reads from.
constexpr std::size_t buffer_bytes = 1 << 20;
constexpr int buffers_per_ring = 16;
constexpr int max_rings = 2;
constexpr int max_threads = 8;  // enough to fill buffers faster than the bus takes them
constexpr std::size_t bytes_per_thread = std::size_t{256} << 10;  // below, waking a thread takes longer than it saves

// The first piece is not on its way until it is filled, and each takes some microseconds to be enqueued.
constexpr std::size_t least_piece_bytes = std::size_t{128} << 10, most_piece_bytes = std::size_t{512} << 10;
constexpr int max_slots = static_cast<int>(buffers_per_ring * buffer_bytes / most_piece_bytes);

// How long a helper waits awake for what is still on its way, as it does in a loop of short products.
constexpr std::chrono::microseconds patience{200};

// Page-locked memory, and events that tell when a part of it has been copied from or to.
struct ring {
  std::array<void*, buffers_per_ring> buffers{};             // null: not allocated yet
  std::map<int, std::array<cudaEvent_t, max_slots>> events;  // by device
  cudaEvent_t last = nullptr;                                // if what was enqueued last may be under way

  void allocate(std::size_t bytes) {
    for (std::size_t i = 0; i * buffer_bytes < bytes; ++i) {
      if (buffers[i] == nullptr) WARPLOOM_CUDA_CHECK(cudaHostAlloc(&buffers[i], buffer_bytes, cudaHostAllocPortable));
    }
  }
  std::array<cudaEvent_t, max_slots>& events_of(int device) {
    std::array<cudaEvent_t, max_slots>& found = events[device];
    for (cudaEvent_t& event : found) {
      if (event == nullptr) WARPLOOM_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
    return found;
  }
};

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

  ring* operator->() const { return ring_; }

 private:
  ring* ring_;
};

bool has_happened(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaSuccess) return true;
  if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
  cudaGetLastError();
  return false;
}

// A transfer in pieces, each by way of a slot of page-locked memory. The calling thread enqueues the copies, as several
// threads would wait for one another in the driver; between them it copies between slots and the memory of the caller,
// as helpers do all the time. Pieces are taken, enqueued and waited for in their order.
class transfer {
 public:
  transfer(std::size_t bytes, cudaStream_t stream)
      : piece_bytes(std::clamp(std::bit_floor(bytes / max_slots), least_piece_bytes, most_piece_bytes)),
        threads_(std::clamp<std::int64_t>(bytes / bytes_per_thread, 1, std::min(max_threads, num_threads()))),
        stream_(stream) {}

  // work(piece, its slot) copies into the slot, and enqueue(piece, its slot) what is in it.
  template <class Fill, class Enqueue>
  void to_device(std::int64_t pieces, const Fill& fill, const Enqueue& enqueue) {
    begin(pieces);
    available_ = std::min<std::int64_t>(pieces, max_slots);  // slots that may be filled
    share(fill, [&] {
      std::int64_t enqueued = 0, left = 0;
      while (enqueued < pieces) {
        if (is_done(enqueued)) {
          enqueue(enqueued, slot(enqueued));
          const bool is_waited_for = pieces > max_slots || enqueued + 1 == pieces;
          if (is_waited_for) WARPLOOM_CUDA_CHECK(cudaEventRecord(event(enqueued), stream_));
          ++enqueued;
        } else if (left + max_slots < pieces && left < enqueued && has_happened(event(left))) {
          make_available(++left + max_slots);
        } else if (!take_one(fill)) {
          pause_processor();
        }
      }
      ring_->last = event(pieces - 1);
    });
  }

  // enqueue(piece, its slot) copies into the slot, and work(piece, its slot) what has arrived in it.
  template <class Empty, class Enqueue>
  void to_host(std::int64_t pieces, const Empty& empty, const Enqueue& enqueue) {
    begin(pieces);
    std::int64_t enqueued = 0, arrived = 0, left = 0;
    const auto enqueue_next = [&] {
      enqueue(enqueued, slot(enqueued));
      WARPLOOM_CUDA_CHECK(cudaEventRecord(event(enqueued), stream_));
      ++enqueued;
    };
    try {
      while (enqueued < std::min<std::int64_t>(pieces, max_slots)) enqueue_next();
    } catch (...) {
      if (cudaStreamSynchronize(stream_) != cudaSuccess) cudaGetLastError();
      throw;
    }
    // Waking helpers takes as long as a short product does.
    share(empty, [&] {
      WARPLOOM_CUDA_CHECK(cudaEventSynchronize(event(0)));
      make_available(arrived = 1);
      while (arrived < pieces || next_ < pieces) {
        while (left < enqueued && is_done(left)) ++left;
        if (enqueued < pieces && enqueued < left + max_slots) {
          enqueue_next();
        } else if (arrived < enqueued && has_happened(event(arrived))) {
          make_available(++arrived);
        } else if (!take_one(empty)) {
          pause_processor();
        }
      }
    });
  }

  const std::size_t piece_bytes;

 private:
  void begin(std::int64_t pieces) {
    if (ring_->last != nullptr) WARPLOOM_CUDA_CHECK(cudaEventSynchronize(ring_->last));
    ring_->last = nullptr;
    pieces_ = pieces;
    ring_->allocate(std::min<std::int64_t>(pieces, max_slots) * piece_bytes);
    events_ = &ring_->events_of(current_device());
  }

  std::byte* slot(std::int64_t piece) const {
    const std::size_t at = piece % max_slots * piece_bytes;
    return static_cast<std::byte*>(ring_->buffers[at / buffer_bytes]) + at % buffer_bytes;
  }
  cudaEvent_t event(std::int64_t piece) const { return (*events_)[piece % max_slots]; }
  bool is_done(std::int64_t piece) const { return done_[piece % max_slots] == piece + 1; }

  void make_available(std::int64_t pieces) {
    available_ = pieces;
    available_.notify_all();
  }

  template <class Work>
  void do_one(const Work& work, std::int64_t piece) {
    work(piece, slot(piece));
    done_[piece % max_slots] = piece + 1;
  }

  template <class Work>
  bool take_one(const Work& work) {
    std::int64_t piece = next_;
    if (piece >= available_ || !next_.compare_exchange_strong(piece, piece + 1)) return false;
    do_one(work, piece);
    return true;
  }

  // Calls conduct() on the calling thread while helpers work on pieces. What is on its way when conduct() fails has
  // left the slots before this throws.
  template <class Work, class Conduct>
  void share(const Work& work, const Conduct& conduct) {
    const std::thread::id caller = std::this_thread::get_id();
    std::exception_ptr failure;
    work_together(static_cast<int>(threads_) - 1, [&] {
      if (std::this_thread::get_id() != caller) return help(work);
      try {
        conduct();
      } catch (...) {
        failure = std::current_exception();
        failed_ = true;
        make_available(pieces_);
      }
    });
    if (!failure) return;
    if (cudaStreamSynchronize(stream_) != cudaSuccess) cudaGetLastError();
    std::rethrow_exception(failure);
  }

  template <class Work>
  void help(const Work& work) {
    for (std::int64_t piece = next_++; piece < pieces_; piece = next_++) {
      for (std::int64_t seen = available_; piece >= seen; seen = available_)
        wait_for_change(available_, seen, patience);
      if (failed_) return;
      do_one(work, piece);
    }
  }

  std::int64_t threads_;
  cudaStream_t stream_;
  const borrowed_ring ring_;
  std::array<cudaEvent_t, max_slots>* events_ = nullptr;
  std::int64_t pieces_ = 0;
  std::atomic<std::int64_t> next_{0};       // that nobody has taken
  std::atomic<std::int64_t> available_{0};  // pieces before it can be worked on
  std::atomic<bool> failed_{false};
  std::array<std::atomic<std::int64_t>, max_slots> done_{};  // by slot, the last piece that was, plus one
};

std::int64_t pieces_of(std::size_t bytes, std::size_t piece_bytes) {
  return static_cast<std::int64_t>((bytes + piece_bytes - 1) / piece_bytes);
}

// A piece of one of several arrays.
struct array_piece {
  std::size_t of = 0;
  std::size_t begin = 0, bytes = 0;
};

array_piece find_piece(std::span<const host_array> arrays, std::size_t piece_bytes, std::int64_t piece) {
  array_piece found;
  for (; piece >= pieces_of(arrays[found.of].bytes, piece_bytes); ++found.of) {
    piece -= pieces_of(arrays[found.of].bytes, piece_bytes);
  }
  found.begin = piece * piece_bytes;
  found.bytes = std::min(piece_bytes, arrays[found.of].bytes - found.begin);
  return found;
}

void copy_into(std::byte* slot, const host_array& array, const array_piece& piece) {
  if (array.narrows) {
    const auto* from = static_cast<const std::int64_t*>(array.from) + piece.begin / sizeof(std::int32_t);
    std::transform(from, from + piece.bytes / sizeof(std::int32_t), reinterpret_cast<std::int32_t*>(slot),
                   [](std::int64_t value) { return static_cast<std::int32_t>(value); });
  } else {
    std::memcpy(slot, static_cast<const std::byte*>(array.from) + piece.begin, piece.bytes);
  }
}

// The slots may still be read from when this returns.
void enqueue_arrays(std::span<const host_array> arrays, cudaStream_t stream, const std::function<void()>& after_first) {
  std::size_t bytes = 0;
  for (const host_array& array : arrays) bytes += array.bytes;
  transfer sent(bytes, stream);
  std::int64_t pieces = 0;
  for (const host_array& array : arrays) pieces += pieces_of(array.bytes, sent.piece_bytes);
  const std::int64_t of_first = pieces_of(arrays[0].bytes, sent.piece_bytes);
  if (of_first == 0) after_first();
  if (pieces == 0) return;
  sent.to_device(
      pieces,
      [&](std::int64_t i, std::byte* slot) {
        const array_piece piece = find_piece(arrays, sent.piece_bytes, i);
        copy_into(slot, arrays[piece.of], piece);
      },
      [&](std::int64_t i, const std::byte* slot) {
        const array_piece piece = find_piece(arrays, sent.piece_bytes, i);
        WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(static_cast<std::byte*>(arrays[piece.of].to) + piece.begin, slot,
                                            piece.bytes, cudaMemcpyHostToDevice, stream));
        if (i + 1 == of_first) after_first();
      });
}

}  // namespace

void upload_arrays(std::span<const host_array> arrays, cudaStream_t stream, const std::function<void()>& after_first) {
  enqueue_arrays(arrays, stream, after_first);
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream));
}

void upload_array(const host_array& array, cudaStream_t stream) {
  enqueue_arrays({&array, 1}, stream, [] {});
}

void download_array(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  transfer received(bytes, stream);
  const auto bytes_of = [&](std::int64_t piece) {
    return std::min(received.piece_bytes, bytes - piece * received.piece_bytes);
  };
  received.to_host(
      pieces_of(bytes, received.piece_bytes),
      [&](std::int64_t piece, const std::byte* slot) {
        std::memcpy(static_cast<std::byte*>(to) + piece * received.piece_bytes, slot, bytes_of(piece));
      },
      [&](std::int64_t piece, std::byte* slot) {
        WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(slot, static_cast<const std::byte*>(from) + piece * received.piece_bytes,
                                            bytes_of(piece), cudaMemcpyDeviceToHost, stream));
      });
}

}  // namespace warploom::cuda

namespace warploom {
namespace {

constexpr std::size_t bytes_worth_sharing = std::size_t{1} << 20;

bool is_page_locked(const void* address) {
  cudaPointerAttributes found{};
  if (cudaPointerGetAttributes(&found, address) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return found.type == cudaMemoryTypeHost || found.type == cudaMemoryTypeManaged;
}

// Small arrays, and those that the bus reads and writes by itself.
bool goes_directly(const void* array, std::size_t bytes) {
  return bytes < bytes_worth_sharing ||
         (is_page_locked(array) && is_page_locked(static_cast<const std::byte*>(array) + bytes - 1));
}

}  // namespace

void upload(void* to, const void* from, std::size_t bytes) {
  if (goes_directly(from, bytes)) return copy_to_device(to, from, bytes, nullptr);
  cuda::upload_array({from, to, bytes}, nullptr);
}

void download(void* to, const void* from, std::size_t bytes) {
  if (goes_directly(to, bytes)) return copy_to_host(to, from, bytes, nullptr);
  cuda::download_array(to, from, bytes, nullptr);
}

}  // namespace warploom
