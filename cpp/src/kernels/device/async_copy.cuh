// Asynchronous copies from global to shared memory, which take no registers: a thread can have many of them in flight.
#pragma once

namespace warploom::cuda {

// Both addresses are multiples of 16. GPUs before compute capability 8.0 copy through registers.
__device__ __forceinline__ void copy_16_bytes_async(void* shared, const void* global) {
#if __CUDA_ARCH__ < 800
  *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
#else
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
#endif
}

// Waits for the copies of this thread; a barrier makes those of other threads visible.
__device__ __forceinline__ void wait_for_async_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Prefetches `bytes` bytes into the L2; address and size are multiples of 16. A hint that only Hopper and newer GPUs
// take.
__device__ __forceinline__ void prefetch_to_l2(const void* global, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#endif
}

}  // namespace warploom::cuda
