// Several consecutive values loaded or stored at once.
#pragma once

#include <type_traits>

#include "kernels/device/values.cuh"

namespace warploom::cuda {

template <class Value, int Width>
struct alignas(sizeof(Value) * Width) vector {
  Value lane[Width];
};

// Read-only data through the non-coherent path.
template <class Value, int Width>
__device__ __forceinline__ vector<Value, Width> load(const Value* from) {
  constexpr int bytes = sizeof(Value) * Width;
  vector<Value, Width> result;
  if constexpr (bytes == 16) {
    *reinterpret_cast<float4*>(&result) = __ldg(reinterpret_cast<const float4*>(from));
  } else if constexpr (bytes == 8) {
    *reinterpret_cast<float2*>(&result) = __ldg(reinterpret_cast<const float2*>(from));
  } else if constexpr (bytes == 4) {
    *reinterpret_cast<float*>(&result) = __ldg(reinterpret_cast<const float*>(from));
  } else {
    static_assert(bytes == 2, "a thread loads 2, 4, 8 or 16 bytes at once");
    *reinterpret_cast<unsigned short*>(&result) = __ldg(reinterpret_cast<const unsigned short*>(from));
  }
  return result;
}

// Consecutive values that are kept as they were loaded, and widened where they are used. Those of two bytes share
// registers until then: as the lanes of a vector they would take one each.
template <class Value, int Width, bool is_half = sizeof(Value) == 2>
struct loaded_values {
  vector<Value, Width> values;

  __device__ __forceinline__ void load_from(const Value* from) { values = load<Value, Width>(from); }
  __device__ __forceinline__ sum_type_t<Value> operator[](int i) const { return values.lane[i]; }
};

template <class Value, int Width>
struct loaded_values<Value, Width, true> {
  static constexpr int num_words = (Width + 1) / 2;
  unsigned words[num_words];

  __device__ __forceinline__ void load_from(const Value* from) {
    if constexpr (Width == 1) {
      words[0] = __ldg(reinterpret_cast<const unsigned short*>(from));
    } else {
      const auto bits = load<unsigned, num_words>(reinterpret_cast<const unsigned*>(from));
#pragma unroll
      for (int i = 0; i < num_words; ++i) words[i] = bits.lane[i];
    }
  }
  __device__ __forceinline__ float operator[](int i) const {
    const unsigned word = words[i / 2];
    if constexpr (std::is_same_v<Value, __nv_bfloat16>) {
      return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
    } else {
      return __half2float(__ushort_as_half(static_cast<unsigned short>(i % 2 == 0 ? word : word >> 16)));
    }
  }
};

// Between thread blocks: through the L2, 16 bytes at once.
template <class Value, int Width>
__device__ __forceinline__ void store_for_others(Value* to, const vector<Value, Width>& value) {
  constexpr int bytes = sizeof(Value) * Width;
  if constexpr (bytes >= 16) {
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i) {
      __stcg(reinterpret_cast<float4*>(to) + i, reinterpret_cast<const float4*>(&value)[i]);
    }
  } else if constexpr (bytes == 8) {
    __stcg(reinterpret_cast<float2*>(to), *reinterpret_cast<const float2*>(&value));
  } else {
    static_assert(bytes == 4);
    __stcg(reinterpret_cast<float*>(to), *reinterpret_cast<const float*>(&value));
  }
}

template <class Value, int Width>
__device__ __forceinline__ vector<Value, Width> load_from_others(const Value* from) {
  constexpr int bytes = sizeof(Value) * Width;
  vector<Value, Width> result;
  if constexpr (bytes >= 16) {
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i) {
      reinterpret_cast<float4*>(&result)[i] = __ldcg(reinterpret_cast<const float4*>(from) + i);
    }
  } else if constexpr (bytes == 8) {
    *reinterpret_cast<float2*>(&result) = __ldcg(reinterpret_cast<const float2*>(from));
  } else {
    static_assert(bytes == 4);
    *reinterpret_cast<float*>(&result) = __ldcg(reinterpret_cast<const float*>(from));
  }
  return result;
}

// Results are not read again by the kernel: evict them first, so that they do not push B out of the L2.
template <class Value, int Width>
__device__ __forceinline__ void store_streaming(Value* to, const vector<Value, Width>& value) {
  constexpr int bytes = sizeof(Value) * Width;
  if constexpr (bytes == 16) {
    __stcs(reinterpret_cast<float4*>(to), *reinterpret_cast<const float4*>(&value));
  } else if constexpr (bytes == 8) {
    __stcs(reinterpret_cast<float2*>(to), *reinterpret_cast<const float2*>(&value));
  } else if constexpr (bytes == 4) {
    __stcs(reinterpret_cast<float*>(to), *reinterpret_cast<const float*>(&value));
  } else {
    static_assert(bytes == 2, "a thread stores 2, 4, 8 or 16 bytes at once");
    __stcs(reinterpret_cast<unsigned short*>(to), *reinterpret_cast<const unsigned short*>(&value));
  }
}

}  // namespace warploom::cuda
