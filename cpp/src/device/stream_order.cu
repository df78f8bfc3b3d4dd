#include "device/runtime.hpp"
#include "device/stream_order.hpp"
#include "warploom/device.hpp"

namespace warploom {

bool is_captured(CUstream_st* stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess) return status != cudaStreamCaptureStatusNone;
  cudaGetLastError();
  return true;  // the default stream while another one is captured
}

stream_order::~stream_order() {
  if (done_ != nullptr && cudaEventDestroy(done_) != cudaSuccess) cudaGetLastError();
}

void stream_order::change_to(CUstream_st* stream) {
  if (used_) {
    if (is_captured(stream)) return;
    if (done_ == nullptr) {
      WARPLOOM_CUDA_CHECK(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming));
      // Of all streams, only the default one exists for certain.
      if (last_ != nullptr) wait_for_device();
      WARPLOOM_CUDA_CHECK(cudaEventRecord(done_, nullptr));
    }
    WARPLOOM_CUDA_CHECK(cudaStreamWaitEvent(stream, done_));
  }
  used_ = true;
  last_ = stream;
}

void stream_order::note(CUstream_st* stream) noexcept {
  if (is_captured(stream)) return;
  if (cudaEventRecord(done_, stream) != cudaSuccess) cudaGetLastError();
}

}  // namespace warploom
