#include <map>
#include <mutex>
#include <optional>

#include "device/runtime.hpp"
#include "device/shared_library.hpp"
#include "kernels/cusparse/api.hpp"
#include "warploom/cusparse.hpp"

namespace warploom {
namespace {

std::mutex loading;
std::optional<cuda::cusparse::functions> loaded;

}  // namespace

void load_cusparse(const std::string& path) {
  const std::lock_guard<std::mutex> lock(loading);
  if (loaded) return;
  const cuda::shared_library library(path, "cuSPARSE", "cusparse");
  cuda::cusparse::functions api{};
  library.find("cusparseCreate", api.Create);
  library.find("cusparseSetStream", api.SetStream);
  library.find("cusparseGetProperty", api.GetProperty);
  library.find("cusparseGetErrorString", api.GetErrorString);
  library.find("cusparseCreateCsr", api.CreateCsr);
  library.find("cusparseCreateCoo", api.CreateCoo);
  library.find("cusparseCreateDnMat", api.CreateDnMat);
  library.find("cusparseDestroySpMat", api.DestroySpMat);
  library.find("cusparseDestroyDnMat", api.DestroyDnMat);
  library.find("cusparseSpMM_bufferSize", api.SpMM_bufferSize);
  library.find("cusparseSpMM_preprocess", api.SpMM_preprocess);
  library.find("cusparseSpMM", api.SpMM);
  library.find("cusparseCreateDnVec", api.CreateDnVec);
  library.find("cusparseDestroyDnVec", api.DestroyDnVec);
  library.find("cusparseSpMV_bufferSize", api.SpMV_bufferSize);
  library.find("cusparseSpMV", api.SpMV);
  library.find_optional("cusparseSpMatSetValues", api.SpMatSetValues);
  library.find_optional("cusparseSDDMM_bufferSize", api.SDDMM_bufferSize);
  library.find_optional("cusparseSDDMM_preprocess", api.SDDMM_preprocess);
  library.find_optional("cusparseSDDMM", api.SDDMM);
  library.find_optional("cusparseSpMV_preprocess", api.SpMV_preprocess);
  library.find_optional("cusparseCreateSlicedEll", api.CreateSlicedEll);
  library.find_optional("cusparseCreateBsr", api.CreateBsr);
  loaded = api;
}

std::string cusparse_version() {
  const std::lock_guard<std::mutex> lock(loading);
  return loaded ? cuda::version_by(loaded->GetProperty) : "";
}

namespace cuda::cusparse {

const functions& api() {
  if (!loaded) throw error(error_kind::device, "cusparse", -1, "cuSPARSE was not found on this machine");
  return *loaded;
}

namespace {

// Of threads that have ended. Handles live as long as the process: destroying them after the driver has shut down would
// crash.
struct idle_handles {
  std::mutex changing;
  std::multimap<int, handle> of_device;
};

idle_handles& all_idle() {
  static idle_handles& all = *new idle_handles;
  return all;
}

struct handles_of_thread {
  std::map<int, handle> of_device;

  ~handles_of_thread() {
    idle_handles& idle = all_idle();
    const std::lock_guard<std::mutex> lock(idle.changing);
    idle.of_device.merge(of_device);
  }
};

handle take_idle(int device) {
  idle_handles& idle = all_idle();
  const std::lock_guard<std::mutex> lock(idle.changing);
  const auto found = idle.of_device.find(device);
  if (found == idle.of_device.end()) return nullptr;
  const handle taken = found->second;
  idle.of_device.erase(found);
  return taken;
}

}  // namespace

handle current_handle() {
  static thread_local handles_of_thread handles;
  const int device = current_device();
  const auto known = handles.of_device.find(device);
  if (known != handles.of_device.end()) return known->second;
  handle mine = take_idle(device);
  if (mine == nullptr) WARPLOOM_CUSPARSE_CHECK(Create, &mine);
  handles.of_device[device] = mine;
  return mine;
}

}  // namespace cuda::cusparse
}  // namespace warploom
