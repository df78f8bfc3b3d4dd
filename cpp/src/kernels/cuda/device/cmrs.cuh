// The places of a CMRS matrix as kernels read them.
#pragma once

#include <cstdint>

#include "warploom/formats/cmrs.hpp"

namespace warploom::cuda {

constexpr unsigned no_row = 0xffffffffu;

struct cmrs_place {
  unsigned column;
  unsigned row = no_row;  // within the strip
};

// Places packed into words, or columns and rows apart.
template <bool Packed>
struct cmrs_places {
  const std::uint32_t* __restrict__ columns;  // with the row in the last bits if packed
  const std::uint8_t* __restrict__ rows;

  // Each place is read once a product, so nothing is kept of it in the L1.
  __device__ __forceinline__ cmrs_place load(unsigned j) const {
    const unsigned word = __ldcs(columns + j);
    if constexpr (Packed) {
      return {word >> cmrs_matrix::row_bits, word % (1u << cmrs_matrix::row_bits)};
    } else {
      return {word, __ldcs(rows + j)};
    }
  }

  // For matrices whose places may be empty: those have no row.
  __device__ __forceinline__ cmrs_place load_if_filled(unsigned j) const {
    const unsigned word = __ldcs(columns + j);
    unsigned row = word % (1u << cmrs_matrix::row_bits);
    if constexpr (!Packed) row = __ldcs(rows + j);
    return {Packed ? word >> cmrs_matrix::row_bits : word, word == cmrs_matrix::empty_word ? no_row : row};
  }
};

}  // namespace warploom::cuda
