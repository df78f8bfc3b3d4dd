// Values as 32-bit words, for kernels that read without computing.
#pragma once

namespace warploom::cuda {

// Both words of a double count: a load of which half is used would become half a load.
__device__ __forceinline__ unsigned word_of(float value) { return __float_as_uint(value); }
__device__ __forceinline__ unsigned word_of(double value) {
  return static_cast<unsigned>(__double2loint(value)) | static_cast<unsigned>(__double2hiint(value));
}

}  // namespace warploom::cuda
