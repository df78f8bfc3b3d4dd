// A barrier of all thread blocks of a kernel that is launched cooperatively, so that all of them run at the same time.
// cooperative_groups has one too, with sequentially consistent fences, which take longer.
//
// Why every thread sees afterwards what any thread stored before, by the CUDA memory model:
// 1. __syncthreads orders what the threads of a block did before what their thread 0 does next.
// 2. That thread fences and adds 1 to the counter: a release pattern at device scope, which is cumulative. The
//    additions are read-modify-writes and totally ordered, so the last one's value continues all their release
//    sequences.
// 3. It reads the counter until all have arrived and fences again: an acquire pattern, which synchronizes with all.
// 4. __syncthreads passes this on to the threads of its block.
// Atomic operations on the same memory that no barrier separates do not race. Loads of what other blocks change at
// the time go past the L1 (.cg), and what is made of them does not depend on who was first.
//
// Device code only.
#pragma once

#include <cuda/atomic>

namespace warploom::cuda {

// `arrived` is 0 when the kernel starts, and `awaited` each thread's own count, from 0 on. The thread blocks may pass
// 2^32 times in all.
__device__ __forceinline__ void wait_for_grid(unsigned* arrived, unsigned& awaited) {
  __syncthreads();
  awaited += gridDim.x;
  if (threadIdx.x == 0) {
    ::cuda::atomic_thread_fence(::cuda::memory_order_acq_rel, ::cuda::thread_scope_device);
    atomicAdd(arrived, 1u);
    while (*const_cast<volatile unsigned*>(arrived) < awaited) {
    }
    ::cuda::atomic_thread_fence(::cuda::memory_order_acq_rel, ::cuda::thread_scope_device);
  }
  __syncthreads();
}

}  // namespace warploom::cuda
