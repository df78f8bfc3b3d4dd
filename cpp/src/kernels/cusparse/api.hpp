// The functions of cuSPARSE that warploom calls, found at run time.
#pragma once

#include <cuda_runtime.h>
#include <library_types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "warploom/csr_view.hpp"
#include "warploom/error.hpp"

namespace warploom::cuda {

// The part of cuSPARSE's binary interface that is used, so that neither its header nor the library is needed to build.
// Numbers as documented for CUDA 12 and 13.
namespace cusparse {

struct context;
struct sparse_matrix;
struct dense_matrix;
struct dense_vector;
using handle = context*;
using sparse_descriptor = sparse_matrix*;
using dense_descriptor = dense_matrix*;
using vector_descriptor = dense_vector*;

enum status : int { success = 0, allocation_failed = 2, insufficient_resources = 11 };
enum operation : int { non_transpose = 0, transpose = 1 };
enum index_type : int { index_int32 = 2, index_int64 = 3 };
enum index_base : int { base_zero = 0 };
enum order : int { column_major = 1, row_major = 2 };
enum spmm_algorithm : int {
  spmm_default = 0,
  spmm_coo_algorithm1 = 1,
  spmm_coo_algorithm2 = 2,
  spmm_coo_algorithm3 = 3,
  spmm_coo_algorithm4 = 5,
  spmm_csr_algorithm1 = 4,
  spmm_csr_algorithm2 = 6,
  spmm_csr_algorithm3 = 12,
};

enum sddmm_algorithm : int { sddmm_default = 0 };

enum spmv_algorithm : int {
  spmv_default = 0,
  spmv_coo_algorithm1 = 1,
  spmv_csr_algorithm1 = 2,
  spmv_csr_algorithm2 = 3,
  spmv_coo_algorithm2 = 4,
  spmv_sell_algorithm1 = 5,
  spmv_bsr_algorithm1 = 6,
};

struct functions {
  status (*Create)(handle*);
  status (*SetStream)(handle, cudaStream_t);
  status (*GetProperty)(libraryPropertyType, int*);
  const char* (*GetErrorString)(status);
  status (*CreateCsr)(sparse_descriptor*, std::int64_t rows, std::int64_t cols, std::int64_t nnz, void* offsets,
                      void* indices, void* values, index_type, index_type, index_base, cudaDataType);
  status (*CreateCoo)(sparse_descriptor*, std::int64_t rows, std::int64_t cols, std::int64_t nnz, void* row_indices,
                      void* indices, void* values, index_type, index_base, cudaDataType);
  status (*CreateDnMat)(dense_descriptor*, std::int64_t rows, std::int64_t cols, std::int64_t leading_dimension,
                        void* values, cudaDataType, order);
  status (*DestroySpMat)(sparse_descriptor);
  status (*DestroyDnMat)(dense_descriptor);
  status (*SpMM_bufferSize)(handle, operation, operation, const void* alpha, sparse_descriptor, dense_descriptor,
                            const void* beta, dense_descriptor, cudaDataType, spmm_algorithm, std::size_t* size);
  status (*SpMM_preprocess)(handle, operation, operation, const void* alpha, sparse_descriptor, dense_descriptor,
                            const void* beta, dense_descriptor, cudaDataType, spmm_algorithm, void* buffer);
  status (*SpMM)(handle, operation, operation, const void* alpha, sparse_descriptor, dense_descriptor, const void* beta,
                 dense_descriptor, cudaDataType, spmm_algorithm, void* buffer);
  status (*CreateDnVec)(vector_descriptor*, std::int64_t size, void* values, cudaDataType);
  status (*DestroyDnVec)(vector_descriptor);
  status (*SpMV_bufferSize)(handle, operation, const void* alpha, sparse_descriptor, vector_descriptor,
                            const void* beta, vector_descriptor, cudaDataType, spmv_algorithm, std::size_t* size);
  status (*SpMV)(handle, operation, const void* alpha, sparse_descriptor, vector_descriptor, const void* beta,
                 vector_descriptor, cudaDataType, spmv_algorithm, void* buffer);
  // Null in versions of the library that do not have them.
  status (*SpMatSetValues)(sparse_descriptor, void* values);
  status (*SDDMM_bufferSize)(handle, operation, operation, const void* alpha, dense_descriptor, dense_descriptor,
                             const void* beta, sparse_descriptor, cudaDataType, sddmm_algorithm, std::size_t* size);
  status (*SDDMM_preprocess)(handle, operation, operation, const void* alpha, dense_descriptor, dense_descriptor,
                             const void* beta, sparse_descriptor, cudaDataType, sddmm_algorithm, void* buffer);
  status (*SDDMM)(handle, operation, operation, const void* alpha, dense_descriptor, dense_descriptor, const void* beta,
                  sparse_descriptor, cudaDataType, sddmm_algorithm, void* buffer);
  status (*SpMV_preprocess)(handle, operation, const void* alpha, sparse_descriptor, vector_descriptor,
                            const void* beta, vector_descriptor, cudaDataType, spmv_algorithm, void* buffer);
  status (*CreateSlicedEll)(sparse_descriptor*, std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                            std::int64_t places, std::int64_t slice_height, void* slice_offsets, void* indices,
                            void* values, index_type, index_type, index_base, cudaDataType);
  status (*CreateBsr)(sparse_descriptor*, std::int64_t block_rows, std::int64_t block_cols, std::int64_t blocks,
                      std::int64_t block_height, std::int64_t block_width, void* offsets, void* indices, void* values,
                      index_type, index_type, index_base, cudaDataType, order);
};

// What the library calls a value type.
inline cudaDataType data_type(value_type dtype) {
  switch (dtype) {
    case value_type::float16:
      return CUDA_R_16F;
    case value_type::bfloat16:
      return CUDA_R_16BF;
    case value_type::float32:
      return CUDA_R_32F;
    default:
      return CUDA_R_64F;
  }
}

// Factors of 1 and 0 in the type in which products of `dtype` are summed, as the library takes them.
struct factors {
  explicit factors(value_type dtype) : is_double(dtype == value_type::float64) {}

  cudaDataType type() const { return is_double ? CUDA_R_64F : CUDA_R_32F; }
  const void* one() const { return is_double ? static_cast<const void*>(&one64) : &one32; }
  const void* zero() const { return is_double ? static_cast<const void*>(&zero64) : &zero32; }

  bool is_double;
  double one64 = 1, zero64 = 0;
  float one32 = 1, zero32 = 0;
};

// The open library; throws error_kind::device if there is none.
const functions& api();

// This thread's handle for the current device.
handle current_handle();

inline void check(status result, const char* what) {
  if (result == success) return;
  const auto kind =
      result == allocation_failed || result == insufficient_resources ? error_kind::out_of_memory : error_kind::device;
  throw error(kind, "", -1, std::string(what) + ": " + api().GetErrorString(result));
}

#define WARPLOOM_CUSPARSE_CHECK(function, ...) \
  ::warploom::cuda::cusparse::check(::warploom::cuda::cusparse::api().function(__VA_ARGS__), "cusparse" #function)

}  // namespace cusparse
}  // namespace warploom::cuda
