#include <dlfcn.h>

#include <map>
#include <mutex>
#include <optional>

#include "device/runtime.hpp"
#include "kernels/cusparse/api.hpp"
#include "warploom/cusparse.hpp"

namespace warploom {
namespace {

std::mutex loading;
std::optional<cuda::cusparse::functions> loaded;

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw error(error_kind::device, "cusparse", -1, std::string("cuSPARSE has no function ") + name);
}

// Null where the library has no such function.
template <class Function>
void find_optional(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

void load_cusparse(const std::string& path) {
  const std::lock_guard<std::mutex> lock(loading);
  if (loaded) return;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw error(error_kind::device, "cusparse", -1, std::string("cannot open cuSPARSE: ") + dlerror());
  cuda::cusparse::functions api{};
  find(library, "cusparseCreate", api.Create);
  find(library, "cusparseSetStream", api.SetStream);
  find(library, "cusparseGetProperty", api.GetProperty);
  find(library, "cusparseGetErrorString", api.GetErrorString);
  find(library, "cusparseCreateCsr", api.CreateCsr);
  find(library, "cusparseCreateCoo", api.CreateCoo);
  find(library, "cusparseCreateDnMat", api.CreateDnMat);
  find(library, "cusparseDestroySpMat", api.DestroySpMat);
  find(library, "cusparseDestroyDnMat", api.DestroyDnMat);
  find(library, "cusparseSpMM_bufferSize", api.SpMM_bufferSize);
  find(library, "cusparseSpMM_preprocess", api.SpMM_preprocess);
  find(library, "cusparseSpMM", api.SpMM);
  find(library, "cusparseCreateDnVec", api.CreateDnVec);
  find(library, "cusparseDestroyDnVec", api.DestroyDnVec);
  find(library, "cusparseSpMV_bufferSize", api.SpMV_bufferSize);
  find(library, "cusparseSpMV", api.SpMV);
  find_optional(library, "cusparseSpMatSetValues", api.SpMatSetValues);
  find_optional(library, "cusparseSDDMM_bufferSize", api.SDDMM_bufferSize);
  find_optional(library, "cusparseSDDMM_preprocess", api.SDDMM_preprocess);
  find_optional(library, "cusparseSDDMM", api.SDDMM);
  find_optional(library, "cusparseSpMV_preprocess", api.SpMV_preprocess);
  find_optional(library, "cusparseCreateSlicedEll", api.CreateSlicedEll);
  find_optional(library, "cusparseCreateBsr", api.CreateBsr);
  loaded = api;
}

std::string cusparse_version() {
  const std::lock_guard<std::mutex> lock(loading);
  if (!loaded) return "";
  std::string version;
  for (const libraryPropertyType property : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    int value = 0;
    loaded->GetProperty(property, &value);
    if (!version.empty()) version += '.';
    version += std::to_string(value);
  }
  return version;
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
