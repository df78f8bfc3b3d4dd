// Several consecutive values loaded or stored at once.
#pragma once

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
  } else {
    static_assert(bytes == 4, "a thread loads 4, 8 or 16 bytes at once");
    *reinterpret_cast<float*>(&result) = __ldg(reinterpret_cast<const float*>(from));
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
  } else {
    __stcs(reinterpret_cast<float*>(to), *reinterpret_cast<const float*>(&value));
  }
}

}  // namespace warploom::cuda
