// The one answer of a build without CUDA.
#pragma once

#include "warploom/error.hpp"

namespace warploom {

inline constexpr const char* no_cuda_message =
    "this build of warploom has no CUDA kernels; reinstall it with a CUDA toolkit (nvcc) on the PATH, or use "
    "device='cpu'";

[[noreturn]] inline void no_cuda() { throw error(error_kind::device, "device", -1, no_cuda_message); }

}  // namespace warploom
