// Work that is enqueued again and again with the same arguments is recorded as a CUDA graph, and launched as one from
// then on: that takes the CPU a third of what one launch of a kernel does, however many kernels there are.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "device/stream_order.hpp"

struct CUgraphExec_st;

namespace warploom {

// Kernels with their arguments, as a graph of the device that was current.
class recorded_work {
 public:
  // Calls `enqueue` with a stream that is captured, so that nothing runs yet. Null where that fails, where `enqueue`
  // allocates memory or calls the host, and where there is no memory for a graph.
  static std::unique_ptr<recorded_work> record(const std::function<void(CUstream_st*)>& enqueue) noexcept;

  explicit recorded_work(CUgraphExec_st* graph) : graph_(graph) {}
  // What has been launched runs to its end.
  ~recorded_work();
  recorded_work(const recorded_work&) = delete;
  recorded_work& operator=(const recorded_work&) = delete;

  // Not on a stream that is captured.
  void launch(CUstream_st* stream) const;

 private:
  CUgraphExec_st* graph_;
};

// The calls that came last, and what was recorded of those that came often. Equal calls enqueue the same kernels with
// the same arguments; calls for which is_alike is false may replace memory that earlier ones refer to. Not safe to call
// from several threads at once.
template <class Call, class Recorded = recorded_work>
class replays {
 public:
  // Recording takes as long as it saves in about ten launches.
  explicit replays(std::int64_t times_before_recording = 8) : needed_(times_before_recording) {}

  // Calls enqueue(stream), or launches what it enqueues.
  template <class Enqueue>
  void enqueue(const Call& call, CUstream_st* stream, const Enqueue& enqueue) {
    entry* const known = find(call);
    if (known != nullptr && known->recorded) {
      if (is_captured(stream)) return enqueue(stream);
      ++known->launches;
      return known->recorded->launch(stream);
    }
    enqueue(stream);
    entry& now = known != nullptr ? *known : begin(call);
    if (++now.times < needed_ || now.refused || is_captured(stream)) return;
    now.recorded = Recorded::record(enqueue);
    now.refused = now.recorded == nullptr;
  }

  // What recorded work refers to is no longer there.
  void forget() {
    while (count_ > 0) drop(entries_[--count_]);
  }

  std::size_t num_recorded() const {
    return std::count_if(entries_.begin(), entries_.end(), [](const entry& e) { return e.recorded != nullptr; });
  }

 private:
  // A graph takes about 100 KB of the device. Loops go through few different operands, or through too many.
  static constexpr std::size_t max_calls = 4;
  // Launches that are worth recording. Where graphs have fewer, the next ones have to be worth more.
  static constexpr std::int64_t enough_launches = 64;

  struct entry {
    Call call;
    std::int64_t times = 0;
    std::int64_t launches = 0;
    std::int64_t last = 0;
    bool refused = false;
    std::unique_ptr<Recorded> recorded;
  };

  entry* find(const Call& call) {
    ++clock_;
    for (std::size_t i = 0; i < count_; ++i) {
      if (!(entries_[i].call == call)) continue;
      entries_[i].last = clock_;
      return &entries_[i];
    }
    return nullptr;
  }

  // In place of the one that came least recently.
  entry& begin(const Call& call) {
    if (count_ > 0 && !is_alike(entries_[0].call, call)) forget();
    if (count_ < max_calls) {
      ++count_;
    } else {
      const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                           [](const entry& a, const entry& b) { return a.last < b.last; });
      drop(*oldest);
      std::swap(*oldest, entries_[count_ - 1]);
    }
    entry& made = entries_[count_ - 1];
    made.call = call;
    made.last = clock_;
    return made;
  }

  void drop(entry& old) {
    constexpr std::int64_t most = std::int64_t{1} << 32;
    if ((old.recorded && old.launches < enough_launches) || old.refused) needed_ = std::min(2 * needed_, most);
    old = entry{};
  }

  std::array<entry, max_calls> entries_{};
  std::size_t count_ = 0;
  std::int64_t clock_ = 0;
  std::int64_t needed_;
};

}  // namespace warploom
