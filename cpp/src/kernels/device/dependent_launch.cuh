// Two kernels in a row, the second launched with cudaLaunchAttributeProgrammaticStreamSerialization: it starts while
// the first still runs and waits for its results itself. Before Hopper none of this exists, and these functions
// do nothing.
#pragma once

#include "device/runtime.hpp"

namespace warploom::cuda {

inline bool launches_overlap() { return device_attribute(cudaDevAttrComputeCapabilityMajor) >= 9; }

// Launches the second kernel. Without `overlaps`, it starts when the first has ended.
template <class... Parameters, class... Arguments>
void launch_second(void (*kernel)(Parameters...), dim3 blocks, int block_threads, cudaStream_t stream, bool overlaps,
                   const Arguments&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(block_threads));
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  WARPLOOM_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

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
