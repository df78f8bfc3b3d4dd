#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "device/runtime.hpp"
#include "warploom/device.hpp"

namespace warploom {
namespace {

constexpr std::size_t flush_bytes = 256u << 20;  // several times the L2 of any current GPU

// Blocks the stream until the host has enqueued everything, or for 50 ms if something enqueued waits for the device.
__global__ void wait_for_host(const volatile int* released) {
  std::uint64_t start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (*released == 0 && now - start < 50'000'000u);
}

__global__ void write_all(uint4* memory, std::size_t size, unsigned value) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < size;
       i += gridDim.x * std::size_t{blockDim.x}) {
    memory[i] = make_uint4(value, value, value, value);
  }
}

class event {
 public:
  event() { WARPLOOM_CUDA_CHECK(cudaEventCreate(&handle_)); }
  ~event() { cudaEventDestroy(handle_); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  void record(cudaStream_t stream) { WARPLOOM_CUDA_CHECK(cudaEventRecord(handle_, stream)); }
  double microseconds_since(const event& start) const {
    float milliseconds = 0;
    WARPLOOM_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.handle_, handle_));
    return 1e3 * milliseconds;
  }

 private:
  cudaEvent_t handle_;
};

// A word the host writes and the device reads.
class host_flag {
 public:
  host_flag() { WARPLOOM_CUDA_CHECK(cudaHostAlloc(&word_, sizeof(int), cudaHostAllocMapped)); }
  ~host_flag() { cudaFreeHost(const_cast<int*>(word_)); }
  host_flag(const host_flag&) = delete;
  host_flag& operator=(const host_flag&) = delete;
  void set(int value) { *word_ = value; }
  const volatile int* get() const { return word_; }

 private:
  volatile int* word_ = nullptr;
};

}  // namespace

std::shared_ptr<void> eviction_memory() {
  static std::mutex searching;
  static std::map<int, std::weak_ptr<void>> of_device;
  const std::lock_guard<std::mutex> lock(searching);
  std::weak_ptr<void>& known = of_device[cuda::current_device()];
  std::shared_ptr<void> memory = known.lock();
  if (!memory) known = memory = allocate_device_memory(flush_bytes);
  return memory;
}

std::vector<double> time_on_device(const std::function<void(CUstream_st*)>& enqueue, const timing_options& options,
                                   CUstream_st* stream) {
  std::shared_ptr<void> flush;
  if (options.cold) flush = eviction_memory();
  const auto evict = [&](unsigned value) {
    write_all<<<1024, 256, 0, stream>>>(static_cast<uint4*>(flush.get()), flush_bytes / sizeof(uint4), value);
    cuda::check_launch("write_all");
  };

  const int warmup = std::max(1, options.warmup);
  event warmup_start, warmup_stop;
  enqueue(stream);  // the first run may load modules
  warmup_start.record(stream);
  for (int i = 0; i < warmup; ++i) enqueue(stream);
  warmup_stop.record(stream);
  synchronize(stream);
  const double one_us = warmup_stop.microseconds_since(warmup_start) / warmup;
  const int affordable = static_cast<int>(std::min(1e6, 1e3 * options.budget_ms / std::max(one_us, 1e-3)));
  const int repeats = std::clamp(affordable, std::min(options.min_repeats, options.repeats), options.repeats);

  std::vector<event> starts(repeats), stops(repeats);
  static thread_local host_flag released;  // allocating it takes longer than a small kernel runs
  released.set(0);
  wait_for_host<<<1, 1, 0, stream>>>(released.get());
  cuda::check_launch("wait_for_host");
  try {
    for (int i = 0; i < repeats; ++i) {
      if (options.cold) evict(i);
      starts[i].record(stream);
      enqueue(stream);
      stops[i].record(stream);
    }
  } catch (...) {
    released.set(1);
    throw;
  }
  released.set(1);
  synchronize(stream);

  std::vector<double> times(repeats);
  for (int i = 0; i < repeats; ++i) times[i] = stops[i].microseconds_since(starts[i]);
  return times;
}

double measure_copy_bandwidth(std::size_t bytes) {
  const auto from = allocate_device_memory(bytes);
  const auto to = allocate_device_memory(bytes);
  WARPLOOM_CUDA_CHECK(cudaMemset(from.get(), 1, bytes));
  auto times = time_on_device(
      [&](CUstream_st* stream) {
        WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, stream));
      },
      timing_options{}, nullptr);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return 2.0 * bytes / (1e-6 * times[times.size() / 2]);
}

}  // namespace warploom
