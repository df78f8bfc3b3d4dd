// Launches of kernels, checked.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/runtime.hpp"

namespace warploom::cuda {

// One of so many threads, in whole thread blocks; of none, nothing is launched.
template <int block_threads = 256, class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), std::int64_t threads, cudaStream_t stream,
            Arguments... arguments) {
  if (threads == 0) return;
  kernel<<<blocks_for(threads, block_threads), block_threads, 0, stream>>>(arguments...);
  check_launch(name);
}

// How many thread blocks of a kernel run at the same time on the current GPU; at least one.
template <class... Parameters>
unsigned resident_blocks(void (*kernel)(Parameters...), int block_threads) {
  int of_multiprocessor = 0;
  WARPLOOM_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_multiprocessor, kernel, block_threads, 0));
  return static_cast<unsigned>(std::max(1, of_multiprocessor * device_attribute(cudaDevAttrMultiProcessorCount)));
}

inline bool launches_cooperatively() { return device_attribute(cudaDevAttrCooperativeLaunch) != 0; }

// One of thread blocks that wait for each other: at most `resident_blocks`.
template <class... Parameters, class... Arguments>
void launch_cooperatively(void (*kernel)(Parameters...), unsigned blocks, int block_threads, cudaStream_t stream,
                          Arguments... arguments) {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = dim3(blocks);
  configuration.blockDim = dim3(block_threads);
  configuration.stream = stream;
  configuration.attrs = &cooperative;
  configuration.numAttrs = 1;
  WARPLOOM_CUDA_CHECK(cudaLaunchKernelEx(&configuration, kernel, arguments...));
}

}  // namespace warploom::cuda
