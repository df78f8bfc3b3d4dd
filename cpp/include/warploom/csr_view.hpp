// A validated matrix in compressed sparse row form: a view that does not own its arrays.
//
// Invariants, checked once by `validate` at the boundary and trusted everywhere inside:
//   indptr[0] == 0, indptr never decreases, indptr[num_rows] == nnz,
//   0 <= indices[j] < num_cols for every j < nnz.
// Column indices may be unsorted and may repeat; stored zeros are ordinary nonzeros.
//
// Column indices are int32 everywhere (num_cols < 2^31). Row offsets are int64 on the host, so that no host
// algorithm needs a second instantiation; on the device they are int32 whenever nnz allows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "warploom/bfloat16.hpp"
#include "warploom/float16.hpp"

namespace warploom {

enum class value_type { float16, float32, float64, bfloat16 };

inline std::size_t size_of(value_type type) {
  return type == value_type::float64 ? 8 : type == value_type::float32 ? 4 : 2;
}

inline const char* name_of(value_type type) {
  switch (type) {
    case value_type::float16:
      return "float16";
    case value_type::bfloat16:
      return "bfloat16";
    case value_type::float32:
      return "float32";
    default:
      return "float64";
  }
}

// The sparsity pattern. Permutations and features need nothing else.
struct csr_pattern {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  const std::int64_t* indptr = nullptr;   // [num_rows + 1]
  const std::int32_t* indices = nullptr;  // [nnz]

  std::int64_t nnz() const { return indptr[num_rows]; }
  std::int64_t row_length(std::int64_t row) const { return indptr[row + 1] - indptr[row]; }
};

struct csr_view : csr_pattern {
  const void* data = nullptr;  // [nnz] of `dtype`
  value_type dtype = value_type::float32;

  template <class Value>
  const Value* values() const {
    return static_cast<const Value*>(data);
  }
};

// Calls `function(Value{})` with the C++ type that `type` stands for.
template <class Function>
decltype(auto) dispatch_value_type(value_type type, Function&& function) {
  if (type == value_type::float16) return function(float16{});
  if (type == value_type::bfloat16) return function(bfloat16{});
  if (type == value_type::float32) return function(float{});
  return function(double{});
}

// The same where types of two bytes were refused before, or are computed with in float32.
template <class Function>
decltype(auto) dispatch_wide_value_type(value_type type, Function&& function) {
  if (type == value_type::float32) return function(float{});
  return function(double{});
}

// The type in which products of `Value` are summed.
template <class Value>
struct accumulator {
  using type = Value;
};
template <>
struct accumulator<float16> {
  using type = float;
};
template <>
struct accumulator<bfloat16> {
  using type = float;
};
template <class Value>
using accumulator_t = typename accumulator<Value>::type;

// Throws invalid_matrix with the first offending position if the invariants do not hold. The caller checks
// the sizes of the arrays, which are not known here.
void validate(const csr_pattern& matrix);

// The two halves of `validate`, for a boundary whose column indices come in a wider type: they are checked in that type
// and narrowed only afterwards, so that 2^32 + 3 is out of range and never becomes 3.
// Index is int32, int64 or uint64.
void validate_indptr(const std::int64_t* indptr, std::int64_t num_rows);
template <class Index>
void validate_indices(const Index* indices, std::int64_t nnz, std::int64_t num_cols);

}  // namespace warploom
