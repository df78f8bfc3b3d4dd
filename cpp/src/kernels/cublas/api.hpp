// The functions of cublasLt that warploom calls, found at run time.
#pragma once

#include <cuda_runtime.h>
#include <library_types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "warploom/error.hpp"

namespace warploom::cuda {

// The part of cublasLt's binary interface that is used, so that neither its header nor the library is needed to build.
// Numbers as documented for CUDA 12 and 13.
namespace cublas {

struct context;
struct matmul_description;
struct matrix_layout;
struct matmul_preference;

enum status : int { success = 0, allocation_failed = 3 };
enum operation : std::int32_t { non_transpose = 0, transpose = 1 };
enum compute_type : int { compute_float32 = 68, compute_float64 = 70, compute_tf32 = 77 };
enum description_attribute : int { transpose_first = 3, transpose_second = 4 };
enum preference_attribute : int {
  max_workspace_bytes = 1,
  reduction_scheme_mask = 3,
  alignment_of_first = 5,
  alignment_of_second = 6,
  alignment_of_addend = 7,
  alignment_of_result = 8,
};
// How partial sums are added up where rows of A are split: not at all, or, here, in the type of the sums and in a fixed
// order. What is left out adds them in the order in which they come, or rounded to the type of C.
enum reduction_scheme : std::uint32_t { sums_in_order = 2 };

struct algorithm {
  std::uint64_t data[8];
};

struct heuristic_result {
  algorithm how;
  std::size_t workspace_bytes;
  status state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(heuristic_result) == 96);

struct functions {
  status (*Create)(context**);
  status (*GetProperty)(libraryPropertyType, int*);
  const char* (*GetStatusString)(status);
  status (*MatmulDescCreate)(matmul_description**, compute_type, cudaDataType scale);
  status (*MatmulDescDestroy)(matmul_description*);
  status (*MatmulDescSetAttribute)(matmul_description*, description_attribute, const void*, std::size_t);
  status (*MatrixLayoutCreate)(matrix_layout**, cudaDataType, std::uint64_t rows, std::uint64_t cols,
                               std::int64_t leading_dimension);
  status (*MatrixLayoutDestroy)(matrix_layout*);
  status (*MatmulPreferenceCreate)(matmul_preference**);
  status (*MatmulPreferenceDestroy)(matmul_preference*);
  status (*MatmulPreferenceSetAttribute)(matmul_preference*, preference_attribute, const void*, std::size_t);
  status (*MatmulAlgoGetHeuristic)(context*, matmul_description*, matrix_layout* first, matrix_layout* second,
                                   matrix_layout* addend, matrix_layout* result, matmul_preference*, int wanted,
                                   heuristic_result*, int* found);
  status (*Matmul)(context*, matmul_description*, const void* alpha, const void* first, matrix_layout*,
                   const void* second, matrix_layout*, const void* beta, const void* addend, matrix_layout*,
                   void* result, matrix_layout*, const algorithm*, void* workspace, std::size_t workspace_bytes,
                   cudaStream_t);
};

// The open library; throws error_kind::device if there is none.
const functions& api();

inline void check(status result, const char* what) {
  if (result == success) return;
  throw error(result == allocation_failed ? error_kind::out_of_memory : error_kind::device, "", -1,
              std::string(what) + ": " + api().GetStatusString(result));
}

#define WARPLOOM_CUBLAS_CHECK(function, ...) \
  ::warploom::cuda::cublas::check(::warploom::cuda::cublas::api().function(__VA_ARGS__), "cublasLt" #function)

// The handle of a device, for one thread at a time. Handles live as long as the process.
struct device_handle {
  std::mutex using_it;
  context* handle = nullptr;
};

device_handle& current_handle();

// An object of the library that is destroyed with this one.
template <class Object, status (*functions::*Destroy)(Object*)>
class owned {
 public:
  owned() = default;
  ~owned() {
    if (object_ != nullptr) (api().*Destroy)(object_);
  }
  owned(owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  owned& operator=(owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  operator Object*() const { return object_; }
  Object** to_create() { return &object_; }

 private:
  Object* object_ = nullptr;
};

using owned_description = owned<matmul_description, &functions::MatmulDescDestroy>;
using owned_layout = owned<matrix_layout, &functions::MatrixLayoutDestroy>;
using owned_preference = owned<matmul_preference, &functions::MatmulPreferenceDestroy>;

}  // namespace cublas
}  // namespace warploom::cuda
