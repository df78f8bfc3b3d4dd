// Two kernels in a row, the second launched with cudaLaunchAttributeProgrammaticStreamSerialization: it starts while
// the first still runs and waits for its results itself. Before Hopper none of this exists, and these functions
// do nothing.
#pragma once

namespace warploom::cuda {

// In the first kernel: the second may start as soon as every thread block has said so.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// In the second kernel: the first is complete and what it wrote can be read, though not through the read-only path.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

}  // namespace warploom::cuda
