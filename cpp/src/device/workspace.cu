#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/release.hpp"
#include "device/workspace.hpp"

namespace warploom::cuda {
namespace {

// Those of products hold the largest copy of an operand (kernels/spmm/padded_copy.cpp) twice. Conversions of large
// matrices sort 24 bytes a nonzero: what is not kept is unmapped whenever the stream is synchronised, and mapping it
// again takes longer than sorting.
std::uint64_t kept_bytes(memory_pool pool) {
  constexpr std::uint64_t least = 256 << 20;
  if (pool == memory_pool::products) return 2 * least;
  std::size_t free = 0, total = 0;
  WARPLOOM_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return std::max<std::uint64_t>(least, total / 256);
}

// Kept memory is never freed: at exit, the driver may have shut down already.
struct kept {
  std::mutex changing;
  std::vector<void*> pinned;
  std::map<std::pair<int, memory_pool>, cudaMemPool_t> pools;
  std::map<int, cudaStream_t> streams;  // for allocations, by devices
  std::map<int, cudaStream_t> feature_streams;
  std::map<int, cudaStream_t> recording_streams;
};

kept& all_kept() {
  static kept& all = *new kept;
  return all;
}

cudaStream_t stream_among(std::map<int, cudaStream_t>& streams, int device) {
  const std::lock_guard<std::mutex> lock(all_kept().changing);
  cudaStream_t& stream = streams[device];
  if (stream == nullptr) WARPLOOM_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

cudaMemPool_t pool_of_current_device(memory_pool which) {
  kept& all = all_kept();
  const std::lock_guard<std::mutex> lock(all.changing);
  cudaMemPool_t& pool = all.pools[{current_device(), which}];
  if (pool != nullptr) return pool;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = current_device();
  cudaMemPool_t made = nullptr;
  WARPLOOM_CUDA_CHECK(cudaMemPoolCreate(&made, &properties));
  std::uint64_t threshold = kept_bytes(which);
  WARPLOOM_CUDA_CHECK(cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &threshold));
  return pool = made;
}

// What the pools of the current device keep for later, or what is still to be freed, may be enough, in one piece.
void give_back_unused() {
  cudaGetLastError();
  if (graph_is_captured()) return;  // which waiting would end
  release_kept();
  wait_for_device();
  kept& all = all_kept();
  const std::lock_guard<std::mutex> lock(all.changing);
  for (const auto& [key, pool] : all.pools) {
    if (key.first == current_device() && pool != nullptr) cudaMemPoolTrimTo(pool, 0);
  }
  cudaGetLastError();
}

[[noreturn]] void throw_out_of_memory(std::size_t bytes) {
  cudaGetLastError();
  std::size_t free = 0, total = 0;
  const bool known = cudaMemGetInfo(&free, &total) == cudaSuccess;
  throw error(error_kind::out_of_memory, "", -1,
              std::to_string(bytes) + " bytes of GPU memory are needed" +
                  (known ? ", and " + std::to_string(free) + " of " + std::to_string(total) + " are free" : ""));
}

}  // namespace

pinned_memory::pinned_memory() {
  kept& all = all_kept();
  {
    const std::lock_guard<std::mutex> lock(all.changing);
    if (!all.pinned.empty()) {
      memory_ = all.pinned.back();
      all.pinned.pop_back();
      return;
    }
  }
  device_allocation_may_fail(bytes);
  WARPLOOM_CUDA_CHECK(cudaHostAlloc(&memory_, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
}

pinned_memory::~pinned_memory() {
  kept& all = all_kept();
  const std::lock_guard<std::mutex> lock(all.changing);
  all.pinned.push_back(memory_);
}

void make_pool(memory_pool which) { pool_of_current_device(which); }

void* allocate_from_pool(std::size_t bytes, cudaStream_t stream, memory_pool from) {
  device_allocation_may_fail(bytes);
  void* memory = nullptr;
  const cudaMemPool_t pool = pool_of_current_device(from);
  cudaError_t status = cudaMallocFromPoolAsync(&memory, bytes, pool, stream);
  if (status == cudaErrorMemoryAllocation) {
    give_back_unused();
    status = cudaMallocFromPoolAsync(&memory, bytes, pool, stream);
  }
  if (status == cudaErrorMemoryAllocation) throw_out_of_memory(bytes);
  check(status, "cudaMallocFromPoolAsync");
  return memory;
}

cudaStream_t allocation_stream(int device) { return stream_among(all_kept().streams, device); }

cudaStream_t feature_stream(int device) { return stream_among(all_kept().feature_streams, device); }

cudaStream_t recording_stream(int device) { return stream_among(all_kept().recording_streams, device); }

pooled_memory::pooled_memory(std::size_t bytes, cudaStream_t stream, memory_pool from) : stream_(stream) {
  if (bytes > 0) memory_ = allocate_from_pool(bytes, stream, from);
}

pooled_memory::~pooled_memory() {
  if (memory_ != nullptr) cudaFreeAsync(memory_, stream_);
}

device_allocator pooled_allocator(cudaStream_t stream, memory_pool from) {
  return [stream, from](std::size_t bytes) {
    auto memory = std::make_shared<pooled_memory>(bytes, stream, from);
    std::byte* const data = memory->data();
    return std::shared_ptr<void>(std::move(memory), data);
  };
}

}  // namespace warploom::cuda

namespace warploom {

void release_unused_memory() { cuda::give_back_unused(); }

pool_bytes memory_in_pools() {
  const int device = cuda::current_device();
  cuda::kept& all = cuda::all_kept();
  const std::lock_guard<std::mutex> lock(all.changing);
  pool_bytes sum;
  for (const auto& [key, pool] : all.pools) {
    if (key.first != device || pool == nullptr) continue;
    std::uint64_t used = 0, reserved = 0;
    WARPLOOM_CUDA_CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    WARPLOOM_CUDA_CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    sum.used += used;
    sum.reserved += reserved;
  }
  return sum;
}

}  // namespace warploom
