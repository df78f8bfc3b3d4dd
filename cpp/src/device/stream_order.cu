#include "device/runtime.hpp"
#include "device/stream_order.hpp"
#include "warploom/device.hpp"

namespace warploom {
namespace {

bool is_captured(cudaStream_t stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess) return status != cudaStreamCaptureStatusNone;
  cudaGetLastError();
  return true;  // the default stream while another one is captured
}

}  // namespace

stream_order::~stream_order() {
  if (done_ != nullptr && cudaEventDestroy(done_) != cudaSuccess) cudaGetLastError();
}

void stream_order::change_to(CUstream_st* stream) {
  if (used_) {
    if (is_captured(stream)) return;
    const bool first_change = done_ == nullptr;
    if (first_change) WARPLOOM_CUDA_CHECK(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming));
    if (first_change && last_ != nullptr) {
      wait_for_device();  // once: the last stream may not exist any longer
    } else {
      if (first_change) WARPLOOM_CUDA_CHECK(cudaEventRecord(done_, last_));  // the default stream always does
      WARPLOOM_CUDA_CHECK(cudaStreamWaitEvent(stream, done_));
    }
  }
  used_ = true;
  last_ = stream;
}

void stream_order::note(CUstream_st* stream) noexcept {
  if (is_captured(stream)) return;
  if (cudaEventRecord(done_, stream) != cudaSuccess) cudaGetLastError();
}

}  // namespace warploom
