// The GPU as the host sees it: device information, memory, copies and timing. Builds without CUDA define the same
// functions; all but `query_cuda` then throw error_kind::device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace warploom {

struct gpu_info {
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes_per_block = 0;
};

struct cuda_info {
  bool built = false;         // this build has CUDA kernels
  std::string architectures;  // they were compiled for, as CMake writes them
  int runtime_version = 0;    // 13000 for CUDA 13.0
  int driver_version = 0;     // newest CUDA the driver supports; 0 without a driver
  std::vector<gpu_info> devices;
  std::string error;  // why there is no device, or empty
};

// Never throws: a missing driver, GPU or CUDA build is reported in the result.
cuda_info query_cuda();

// Number of the GPU that is current in this thread.
int current_device();

// Makes `ordinal` the current device of this thread for as long as the guard lives.
class device_guard {
 public:
  explicit device_guard(int ordinal);
  ~device_guard();
  device_guard(const device_guard&) = delete;
  device_guard& operator=(const device_guard&) = delete;

 private:
  [[maybe_unused]] int previous_ = -1;  // negative: it was current already; unused in builds without CUDA
};

// Memory on the current device that lives as long as the pointer. Frameworks plug their own pools in here.
using device_allocator = std::function<std::shared_ptr<void>(std::size_t)>;

// The stream-ordered pool of the current device.
std::shared_ptr<void> allocate_device_memory(std::size_t bytes);
// For a product and in the order of the default stream: neither this nor giving it back waits for anything.
std::shared_ptr<void> borrow_device_memory(std::size_t bytes);

// For tests: of all allocations from now on, of memory of devices or page-locked memory and whoever provides it, the
// one after so many fails; none does if that is 0. Returns whether one has failed since this was called before.
bool fail_device_allocation(int after);

// What every such allocation calls first. Throws error_kind::out_of_memory if it is the one to fail.
void device_allocation_may_fail(std::size_t bytes);

// Bytes of the pools of the current device: what is allocated, and what they hold with it.
struct pool_bytes {
  std::size_t used = 0, reserved = 0;
};
pool_bytes memory_in_pools();

// Returns to the driver what the pools of the current device keep for later, once all work there is done: who else
// allocates memory on the device cannot have it before.
void release_unused_memory();

// Page-locked memory of the host, which the current device copies from and to without a copy in between.
std::shared_ptr<void> allocate_pinned_memory(std::size_t bytes);

void fill_device(void* to, int byte, std::size_t bytes, CUstream_st* stream);
void copy_to_device(void* to, const void* from, std::size_t bytes, CUstream_st* stream);
void copy_to_host(void* to, const void* from, std::size_t bytes, CUstream_st* stream);  // complete on return
// Between page-locked memory and the current device, both aligned to 16 bytes. They are done when the stream is.
void copy_from_pinned(void* to, const void* from, std::size_t bytes, CUstream_st* stream);
void copy_to_pinned(void* to, const void* from, std::size_t bytes, CUstream_st* stream);
// The same as copy_to_device and copy_to_host on the default stream, and quick where there are megabytes: several
// threads copy them by way of page-locked memory. Work on other streams does not see what `upload` sends until it is
// waited for, and `from` may still be read then if it is page-locked itself. `download` is complete on return.
void upload(void* to, const void* from, std::size_t bytes);
void download(void* to, const void* from, std::size_t bytes);
void synchronize(CUstream_st* stream);
// Returns when the current device has done all that was enqueued, on whatever stream.
void wait_for_device() noexcept;

struct timing_options {
  bool cold = false;        // evict the L2 before every repeat
  int warmup = 3;           // runs that are not counted
  int repeats = 30;         // counted runs
  double budget_ms = 50.0;  // fewer repeats (but at least `min_repeats`) when they would take longer than this
  int min_repeats = 5;
};

// Microseconds of each repeat of `enqueue`, between events on the device. The repeats are enqueued behind a kernel that
// waits for the host, so that the host's launch cost stays out of the figures.
std::vector<double> time_on_device(const std::function<void(CUstream_st*)>& enqueue, const timing_options& options,
                                   CUstream_st* stream);

// The buffer that is overwritten to evict the L2 of the current device. It is kept for the next timing as long as
// somebody holds it: allocating it takes longer than timing a small kernel.
std::shared_ptr<void> eviction_memory();

// Bytes per second (read plus written) of a device-to-device copy of `bytes`.
double measure_copy_bandwidth(std::size_t bytes);

}  // namespace warploom
