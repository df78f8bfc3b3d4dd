// The sampled product of half precision on tensor cores. Included by CUDA sources.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/sampled/windows.cuh"

namespace warploom::cuda::sampled {

// False without having done anything: more than 32 columns, or not a multiple of 8, rows that do not begin on 16 bytes,
// or a GPU that is too old.
bool run_on_tensor_cores(const product<__half>& given, cudaStream_t stream);
bool run_on_tensor_cores(const product<__nv_bfloat16>& given, cudaStream_t stream);

}  // namespace warploom::cuda::sampled
