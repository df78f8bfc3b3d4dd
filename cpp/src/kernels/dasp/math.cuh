// How the kernels of DASP multiply and add: on tensor cores or without. Device code only.
//
// Lane l of a warp holds slot l of an 8 x 4 block, that is column l % 4 of row l / 4: its value a and the entry x of
// the vector that belongs to it. Every `sums` class adds products into per-lane parts; the parts of four lanes (a quad)
// make up the sum of their row.
#pragma once

#include <cstdint>

#include "kernels/device/tensor_core.cuh"
#include "kernels/device/values.cuh"

namespace warploom::cuda {

inline constexpr int dasp_unroll = 4;  // blocks that a warp multiplies at a time

// Each lane adds its own products.
template <class Value>
struct cuda_core_sums {
  static constexpr bool on_tensor_cores = false;
  sum_type_t<Value> sum = 0;

  __device__ __forceinline__ void add(Value a, Value x) { sum += widen(a) * widen(x); }
  __device__ __forceinline__ void add(const Value (&a)[dasp_unroll], const Value (&x)[dasp_unroll]) {
#pragma unroll
    for (int u = 0; u < dasp_unroll; ++u) add(a[u], x[u]);
  }
  __device__ __forceinline__ sum_type_t<Value> part(int) const { return sum; }
};

// C = A B + C with the block as A and the vector entries as B, transposed: row l / 4 of A times column l / 4 of B is
// the sum of a row, so that the diagonal of C holds all eight. Entries off the diagonal mix rows and are
// discarded. In all shapes used here C has row l / 4 and columns 2 (l % 4) and 2 (l % 4) + 1 in the first two registers
// of lane l, so that the diagonal of row r is with lane 4 r + r / 2, in register r % 2.
template <class Sum>
struct diagonal {
  Sum c[2] = {0, 0};

  __device__ __forceinline__ static bool holds(int lane) { return lane % 4 == lane / 8; }
  __device__ __forceinline__ Sum at(int lane) const { return lane / 4 % 2 ? c[1] : c[0]; }
  __device__ __forceinline__ Sum part(int lane) const { return holds(lane) ? at(lane) : Sum(0); }
};

template <class Value>
struct tensor_core_sums;

template <>
struct tensor_core_sums<double> : diagonal<double> {
  static constexpr bool on_tensor_cores = true;

  // One 8 x 4 block.
  __device__ __forceinline__ void add(double a, double x) { multiply_add(c, a, x); }
  __device__ __forceinline__ void add(const double (&a)[dasp_unroll], const double (&x)[dasp_unroll]) {
#pragma unroll
    for (int u = 0; u < dasp_unroll; ++u) add(a[u], x[u]);
  }
};

// m16n8k16 takes four blocks at a time: lane l holds columns 2 (l % 4), 2 (l % 4) + 1, and the same plus 8, of row l /
// 4 of A and of column l / 4 of B. Which of the 16 columns a block's slot becomes does not matter as long as it is the
// same in A and B. Rows 8 .. 15 of A are zero: B has only eight columns, hence eight vectors.
template <>
struct tensor_core_sums<__half> : diagonal<float> {
  static constexpr bool on_tensor_cores = true;

  __device__ __forceinline__ void add(__half a, __half x) {
#if __CUDA_ARCH__ >= 800
    const __half zero = __ushort_as_half(0);
    float unused[2] = {0, 0};
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(unused[0]), "+f"(unused[1])
        : "r"(pack(a, zero)), "r"(0u), "r"(pack(x, zero)));
#else
    __trap();  // never launched there
#endif
  }
  __device__ __forceinline__ void add(const __half (&a)[dasp_unroll], const __half (&x)[dasp_unroll]) {
    static_assert(dasp_unroll == 4);
#if __CUDA_ARCH__ >= 800
    float unused[2] = {0, 0};
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(unused[0]), "+f"(unused[1])
        : "r"(pack(a[0], a[1])), "r"(0u), "r"(pack(a[2], a[3])), "r"(0u), "r"(pack(x[0], x[1])), "r"(pack(x[2], x[3])));
#else
    __trap();  // never launched there
#endif
  }

 private:
  __device__ __forceinline__ static std::uint32_t pack(__half low, __half high) {
    return __half_as_ushort(low) | static_cast<std::uint32_t>(__half_as_ushort(high)) << 16;
  }
};

}  // namespace warploom::cuda
