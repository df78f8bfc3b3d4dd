// Value types on the device: float16 is stored as __half, bfloat16 as __nv_bfloat16, and both are multiplied and
// summed in float32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "warploom/csr_view.hpp"

namespace warploom::cuda {

template <class Value>
struct device_type {
  using type = Value;
};
template <>
struct device_type<float16> {
  using type = __half;
};
template <>
struct device_type<bfloat16> {
  using type = __nv_bfloat16;
};
// What the host calls Value, as device code calls it.
template <class Value>
using device_type_t = typename device_type<Value>::type;

template <class Value>
struct sum_type {
  using type = Value;
};
template <>
struct sum_type<__half> {
  using type = float;
};
template <>
struct sum_type<__nv_bfloat16> {
  using type = float;
};
// The type in which products of Value (a device type) are summed.
template <class Value>
using sum_type_t = typename sum_type<Value>::type;

__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ double widen(double value) { return value; }

template <class Value>
__device__ __forceinline__ Value narrow(sum_type_t<Value> sum) {
  if constexpr (std::is_same_v<Value, __half>) {
    return __float2half_rn(sum);
  } else if constexpr (std::is_same_v<Value, __nv_bfloat16>) {
    return __float2bfloat16_rn(sum);
  } else {
    return sum;
  }
}

template <class Value>
__device__ __forceinline__ Value value_of(unsigned short bits) {
  if constexpr (std::is_same_v<Value, __nv_bfloat16>) {
    return __ushort_as_bfloat16(bits);
  } else {
    return __ushort_as_half(bits);
  }
}

// __ldg and __ldcs. For values of two bytes those of CUDA are assembler, which nvcc may move ahead of the condition
// that they depend on and which then reads out of bounds; the loads of words are not moved.
template <class Value>
__device__ __forceinline__ Value read_only(const Value* from) {
  if constexpr (sizeof(Value) == 2) {
    return value_of<Value>(__ldg(reinterpret_cast<const unsigned short*>(from)));
  } else {
    return __ldg(from);
  }
}
template <class Value>
__device__ __forceinline__ Value read_once(const Value* from) {
  if constexpr (sizeof(Value) == 2) {
    return value_of<Value>(__ldcs(reinterpret_cast<const unsigned short*>(from)));
  } else {
    return __ldcs(from);
  }
}

// A value as a 32-bit word, for kernels that read without computing. Both words of a double count: a load of which half
// is used would become half a load.
__device__ __forceinline__ unsigned word_of(float value) { return __float_as_uint(value); }
__device__ __forceinline__ unsigned word_of(double value) {
  return static_cast<unsigned>(__double2loint(value)) | static_cast<unsigned>(__double2hiint(value));
}

// Calls `function(Value{})` with the device type that `type` stands for.
template <class Function>
decltype(auto) dispatch_device_type(value_type type, Function&& function) {
  return dispatch_value_type(type,
                             [&](auto value) -> decltype(auto) { return function(device_type_t<decltype(value)>{}); });
}

}  // namespace warploom::cuda
