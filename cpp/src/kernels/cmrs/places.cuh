// The places of a CMRS matrix as kernels read them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/device/values.cuh"
#include "warploom/formats/cmrs.hpp"

namespace warploom::cuda {

constexpr unsigned no_row = ~0u;

// Packed: column and row share a word. Padded: places may be empty.
template <bool Packed, bool Padded, class Value>
struct cmrs_places {
  using sum_type = sum_type_t<Value>;

  const std::uint32_t* __restrict__ columns;  // with the row in the last bits if packed
  const std::uint8_t* __restrict__ rows;
  const Value* __restrict__ values;

  // Products of the places first, first + stride, ... with x, and their rows within the strip: no_row from `end` on and
  // for empty places. At least one place is before `end`. All loads are unconditional, so that they are in flight
  // together: those that are not needed load an address that another lane needs. Only x is kept in the L1.
  template <int N>
  __device__ __forceinline__ void multiply(unsigned first, unsigned stride, unsigned end, const Value* __restrict__ x,
                                           unsigned (&row)[N], sum_type (&product)[N]) const {
    unsigned word[N];
    Value value[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const unsigned j = min(first + i * stride, end - 1);
      word[i] = __ldcs(columns + j);
      if constexpr (!Packed) row[i] = __ldcs(rows + j);
      value[i] = read_once(values + j);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      unsigned column = word[i];
      if constexpr (Packed) {
        column = word[i] >> cmrs_matrix::row_bits;
        row[i] = word[i] % (1u << cmrs_matrix::row_bits);
      }
      if (first + i * stride >= end) row[i] = no_row;
      if (Padded && word[i] == cmrs_matrix::empty_word) {
        column = 0;  // there is one if there are places
        row[i] = no_row;
      }
      product[i] = widen(value[i]) * widen(read_only(x + column));
    }
  }
};

// Calls `add(std::integral_constant<int, N>{}, first)` for the places of a strip, N runs of `stride` places from
// `first` at a time: four as long as there are more than two, so that their loads are in flight together.
template <class Function>
__device__ __forceinline__ void for_each_run(unsigned first, unsigned end, unsigned stride, Function&& add) {
  for (; first + 2 * stride < end; first += 4 * stride) add(std::integral_constant<int, 4>{}, first);
  if (first + stride < end) {
    add(std::integral_constant<int, 2>{}, first);
  } else if (first < end) {
    add(std::integral_constant<int, 1>{}, first);
  }
}

}  // namespace warploom::cuda
