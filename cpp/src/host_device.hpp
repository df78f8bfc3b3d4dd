// Functions that run on the host and in kernels alike.
#pragma once

#ifdef __CUDACC__
#define WARPLOOM_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define WARPLOOM_HOST_DEVICE inline
#endif
