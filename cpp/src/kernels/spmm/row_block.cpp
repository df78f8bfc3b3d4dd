// SpMM on row-major operands with AVX-512: up to eight vectors of adjacent columns at a time, the last of them masked,
// so that few columns, and what is left over of many, cost as little as a vector.
#include <algorithm>

#include "kernels/spmm/rows_plan.hpp"

#if WARPLOOM_HAS_X86_SETS
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in the header itself: GCC bug 105593
#endif
#include <immintrin.h>
#endif

namespace warploom {

#if WARPLOOM_HAS_X86_SETS
namespace {

template <class Value>
struct vector_of;

template <>
struct vector_of<double> {
  using type = __m512d;
  using mask = __mmask8;
  static constexpr int lanes = 8;
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static type zero() { return _mm512_setzero_pd(); }
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static type all(double value) { return _mm512_set1_pd(value); }
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static type load(const double* from) { return _mm512_loadu_pd(from); }
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static type load(const double* from, mask m) {
    return _mm512_maskz_loadu_pd(m, from);
  }
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static void store(double* to, type v, mask m) { _mm512_mask_storeu_pd(to, m, v); }
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static type multiply_add(type a, type b, type c) {
    return _mm512_fmadd_pd(a, b, c);
  }
};

template <>
struct vector_of<float> {
  using type = __m512;
  using mask = __mmask16;
  static constexpr int lanes = 16;
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static type zero() { return _mm512_setzero_ps(); }
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static type all(float value) { return _mm512_set1_ps(value); }
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static type load(const float* from) { return _mm512_loadu_ps(from); }
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static type load(const float* from, mask m) {
    return _mm512_maskz_loadu_ps(m, from);
  }
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static void store(float* to, type v, mask m) { _mm512_mask_storeu_ps(to, m, v); }
  WARPLOOM_FOR_AVX512 WARPLOOM_INLINE static type multiply_add(type a, type b, type c) {
    return _mm512_fmadd_ps(a, b, c);
  }
};

// All rows of the block times `vectors` vectors of columns from `first_column`. Rows of B are fetched ahead across the
// ends of rows of A, where B is too large for the caches that are near.
template <int vectors, bool prefetches, class Value>
WARPLOOM_FOR_AVX512 void multiply_tile_of_block(const balanced_rows& rows, const row_block& block,
                                                std::int64_t first_column, typename vector_of<Value>::mask last,
                                                const dense_tile_view<Value, layout::row_major>& B,
                                                const dense_tile_view<Value, layout::row_major>& C) {
  using v = vector_of<Value>;
  constexpr std::int64_t distance = 16;
  const std::int64_t* indptr = rows.rows.indptr.data();
  const std::int32_t* indices = rows.rows.indices;
  const auto* values = static_cast<const Value*>(rows.rows.data);
  const std::int64_t end_of_block = indptr[block.last_row];
  const std::int32_t* row_ids = rows.rows.row_ids.empty() ? nullptr : rows.rows.row_ids.data();
  const Value* from = B.data + first_column;
  for (std::int64_t p = block.first_row; p < block.last_row; ++p) {
    typename v::type sums[vectors];
    for (int t = 0; t < vectors; ++t) sums[t] = v::zero();
    for (std::int64_t j = indptr[p]; j < indptr[p + 1]; ++j) {
      if constexpr (prefetches) {
        const Value* ahead = from + indices[std::min(j + distance, end_of_block - 1)] * B.leading_dimension;
        for (int t = 0; t < vectors; ++t) __builtin_prefetch(ahead + t * v::lanes);
      }
      const Value* b = from + indices[j] * B.leading_dimension;
      const typename v::type a = v::all(values[j]);
      for (int t = 0; t + 1 < vectors; ++t) sums[t] = v::multiply_add(a, v::load(b + t * v::lanes), sums[t]);
      sums[vectors - 1] = v::multiply_add(a, v::load(b + (vectors - 1) * v::lanes, last), sums[vectors - 1]);
    }
    Value* c = C.data + (row_ids ? row_ids[p] : p) * C.leading_dimension + first_column;
    for (int t = 0; t + 1 < vectors; ++t) v::store(c + t * v::lanes, sums[t], static_cast<typename v::mask>(-1));
    v::store(c + (vectors - 1) * v::lanes, sums[vectors - 1], last);
  }
}

template <bool prefetches, class Value>
void multiply_tiles(const balanced_rows& rows, const row_block& block,
                    const dense_tile_view<Value, layout::row_major>& B,
                    const dense_tile_view<Value, layout::row_major>& C) {
  using mask = typename vector_of<Value>::mask;
  constexpr std::int64_t lanes = vector_of<Value>::lanes, most = 8 * lanes;
  for (std::int64_t done = 0; done < block.columns; done += most) {
    const std::int64_t columns = std::min(most, block.columns - done);
    const auto in_last = static_cast<int>((columns - 1) % lanes) + 1;
    const auto last = static_cast<mask>((1u << in_last) - 1);
    const std::int64_t first = block.first_column + done;
    switch ((columns + lanes - 1) / lanes) {
      case 1:
        multiply_tile_of_block<1, prefetches>(rows, block, first, last, B, C);
        break;
      case 2:
        multiply_tile_of_block<2, prefetches>(rows, block, first, last, B, C);
        break;
      case 3:
        multiply_tile_of_block<3, prefetches>(rows, block, first, last, B, C);
        break;
      case 4:
        multiply_tile_of_block<4, prefetches>(rows, block, first, last, B, C);
        break;
      case 5:
        multiply_tile_of_block<5, prefetches>(rows, block, first, last, B, C);
        break;
      case 6:
        multiply_tile_of_block<6, prefetches>(rows, block, first, last, B, C);
        break;
      case 7:
        multiply_tile_of_block<7, prefetches>(rows, block, first, last, B, C);
        break;
      default:
        multiply_tile_of_block<8, prefetches>(rows, block, first, last, B, C);
    }
  }
}

}  // namespace

template <class Value>
void multiply_block_avx512(const balanced_rows& rows, const row_block& block,
                           const dense_tile_view<Value, layout::row_major>& B,
                           const dense_tile_view<Value, layout::row_major>& C) {
  constexpr std::int64_t near_caches = 1 << 20;  // bytes
  const std::int64_t bytes_of_B = rows.rows.num_cols * B.leading_dimension * static_cast<std::int64_t>(sizeof(Value));
  if (bytes_of_B > near_caches) {
    multiply_tiles<true>(rows, block, B, C);
  } else {
    multiply_tiles<false>(rows, block, B, C);
  }
}

template void multiply_block_avx512(const balanced_rows&, const row_block&,
                                    const dense_tile_view<double, layout::row_major>&,
                                    const dense_tile_view<double, layout::row_major>&);
template void multiply_block_avx512(const balanced_rows&, const row_block&,
                                    const dense_tile_view<float, layout::row_major>&,
                                    const dense_tile_view<float, layout::row_major>&);

#endif

}  // namespace warploom
