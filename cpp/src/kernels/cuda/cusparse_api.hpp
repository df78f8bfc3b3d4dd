// The functions of cuSPARSE that warploom calls, found at run time.
#pragma once

#include <cusparse.h>

#include "warploom/error.hpp"

namespace warploom::cuda {

struct cusparse_api {
  decltype(&::cusparseCreate) Create = nullptr;
  decltype(&::cusparseSetStream) SetStream = nullptr;
  decltype(&::cusparseGetProperty) GetProperty = nullptr;
  decltype(&::cusparseGetErrorString) GetErrorString = nullptr;
  decltype(&::cusparseCreateCsr) CreateCsr = nullptr;
  decltype(&::cusparseCreateCoo) CreateCoo = nullptr;
  decltype(&::cusparseCreateDnMat) CreateDnMat = nullptr;
  decltype(&::cusparseDestroySpMat) DestroySpMat = nullptr;
  decltype(&::cusparseDestroyDnMat) DestroyDnMat = nullptr;
  decltype(&::cusparseSpMM_bufferSize) SpMM_bufferSize = nullptr;
  decltype(&::cusparseSpMM_preprocess) SpMM_preprocess = nullptr;
  decltype(&::cusparseSpMM) SpMM = nullptr;
};

// The open library; throws error_kind::device if there is none.
const cusparse_api& cusparse();

// This thread's handle for the current device.
cusparseHandle_t cusparse_handle();

inline void check(cusparseStatus_t status, const char* what) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  const auto kind = status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES
                        ? error_kind::out_of_memory
                        : error_kind::device;
  throw error(kind, "", -1, std::string(what) + ": " + cusparse().GetErrorString(status));
}

#define WARPLOOM_CUSPARSE_CHECK(function, ...) ::warploom::cuda::check(::warploom::cuda::cusparse().function(__VA_ARGS__), "cusparse" #function)

}  // namespace warploom::cuda
