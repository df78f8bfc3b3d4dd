#include <map>
#include <mutex>
#include <optional>

#include "device/runtime.hpp"
#include "device/shared_library.hpp"
#include "kernels/cublas/api.hpp"
#include "warploom/cublas.hpp"

namespace warploom {
namespace {

std::mutex loading;
std::optional<cuda::cublas::functions> loaded;

}  // namespace

void load_cublas(const std::string& path) {
  const std::lock_guard<std::mutex> lock(loading);
  if (loaded) return;
  const cuda::shared_library library(path, "cuBLAS", "cublas");
  cuda::cublas::functions api{};
  library.find("cublasLtCreate", api.Create);
  library.find("cublasLtGetProperty", api.GetProperty);
  library.find("cublasLtGetStatusString", api.GetStatusString);
  library.find("cublasLtMatmulDescCreate", api.MatmulDescCreate);
  library.find("cublasLtMatmulDescDestroy", api.MatmulDescDestroy);
  library.find("cublasLtMatmulDescSetAttribute", api.MatmulDescSetAttribute);
  library.find("cublasLtMatrixLayoutCreate", api.MatrixLayoutCreate);
  library.find("cublasLtMatrixLayoutDestroy", api.MatrixLayoutDestroy);
  library.find("cublasLtMatmulPreferenceCreate", api.MatmulPreferenceCreate);
  library.find("cublasLtMatmulPreferenceDestroy", api.MatmulPreferenceDestroy);
  library.find("cublasLtMatmulPreferenceSetAttribute", api.MatmulPreferenceSetAttribute);
  library.find("cublasLtMatmulAlgoGetHeuristic", api.MatmulAlgoGetHeuristic);
  library.find("cublasLtMatmul", api.Matmul);
  loaded = api;
}

std::string cublas_version() {
  const std::lock_guard<std::mutex> lock(loading);
  return loaded ? cuda::version_by(loaded->GetProperty) : "";
}

namespace cuda::cublas {

const functions& api() {
  if (!loaded) throw error(error_kind::device, "cublas", -1, "cuBLAS was not found on this machine");
  return *loaded;
}

device_handle& current_handle() {
  // Never destroyed: that would crash after the driver has shut down.
  static std::mutex& changing = *new std::mutex;
  static auto& of_device = *new std::map<int, device_handle>;
  const std::lock_guard<std::mutex> lock(changing);
  device_handle& found = of_device[current_device()];
  if (found.handle == nullptr) WARPLOOM_CUBLAS_CHECK(Create, &found.handle);
  return found;
}

}  // namespace cuda::cublas
}  // namespace warploom
