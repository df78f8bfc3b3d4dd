// Products of small tiles on tensor cores.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

namespace warploom::cuda {

constexpr int first_with_bfloat16_tiles = 8;  // major compute capability; those of float16 are asked of the same GPUs

// c += a b, with tiles of 16 x 16 and 16 x 8 values of two bytes. Lane l has g = l / 4 and t = l % 4, and values 2 t
// and 2 t + 1, or 2 t + 8 and 2 t + 9, of row g (a[0], a[2]) and row g + 8 (a[1], a[3]) of a and of column g of b; of c
// it has columns 2 t and 2 t + 1 of row g, then of row g + 8. Compute capability 8.0.
template <class Value>
__device__ __forceinline__ void multiply_add_tile(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<Value, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    static_assert(std::is_same_v<Value, __nv_bfloat16>);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  __trap();  // never launched there
#endif
}

}  // namespace warploom::cuda
