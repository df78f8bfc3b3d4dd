// Work that has to be done in the order it is enqueued in, whatever the stream.
#pragma once

struct CUevent_st;
struct CUstream_st;

namespace warploom {

// Whether work on a stream of the current device is captured for a graph: nothing may synchronise it then.
bool is_captured(CUstream_st* stream) noexcept;

// Work on another stream than the last waits for that. What is captured for a graph is left out: whoever launches the
// graph orders it. Not safe to call from several threads at once.
class stream_order {
 public:
  stream_order() = default;
  ~stream_order();
  stream_order(const stream_order&) = delete;
  stream_order& operator=(const stream_order&) = delete;

  // Before and after work is enqueued on a stream of the current device, which is always the same.
  void enter(CUstream_st* stream) {
    if (stream != last_ || !used_) change_to(stream);
  }
  void leave(CUstream_st* stream) noexcept {
    if (done_ != nullptr) note(stream);
  }

 private:
  void change_to(CUstream_st* stream);
  void note(CUstream_st* stream) noexcept;

  bool used_ = false;
  CUstream_st* last_ = nullptr;
  CUevent_st* done_ = nullptr;  // once there have been two streams: events cost time
};

}  // namespace warploom
