// A library of the vendor's that is opened at run time, so that neither its header nor the library is needed to build.
#pragma once

#include <dlfcn.h>
#include <library_types.h>

#include <string>
#include <utility>

#include "warploom/error.hpp"

namespace warploom::cuda {

class shared_library {
 public:
  // `name` and `argument`: "cuSPARSE" and "cusparse" in errors, which are of error_kind::device. The library stays
  // open.
  shared_library(const std::string& path, std::string name, std::string argument)
      : name_(std::move(name)), argument_(std::move(argument)), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw error(error_kind::device, argument_, -1, "cannot open " + name_ + ": " + dlerror());
  }

  template <class Function>
  void find(const char* name, Function& function) const {
    find_optional(name, function);
    if (function == nullptr) throw error(error_kind::device, argument_, -1, name_ + " has no function " + name);
  }

  // Null where the library has no such function.
  template <class Function>
  void find_optional(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
  }

 private:
  std::string name_;
  std::string argument_;
  void* handle_;
};

// "12.6.3", by the library's own function.
template <class GetProperty>
std::string version_by(GetProperty get_property) {
  std::string version;
  for (const libraryPropertyType property : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    int value = 0;
    get_property(property, &value);
    if (!version.empty()) version += '.';
    version += std::to_string(value);
  }
  return version;
}

}  // namespace warploom::cuda
