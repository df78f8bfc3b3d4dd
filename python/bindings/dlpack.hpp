// What this package uses of DLPack's binary interface, version 1: tensors, and the functions with which a framework
// gives them to a compiled caller (the capsule `__dlpack_c_exchange_api__` of its array type, from version 1.3 on).
// https://dmlc.github.io/dlpack/latest/ specifies them. Names are DLPack's without the prefix.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

#include "warploom/device.hpp"

namespace warploom::python::dlpack {

namespace py = pybind11;

inline constexpr std::uint32_t major_version = 1;
inline constexpr const char* exchange_api_attribute = "__dlpack_c_exchange_api__";
inline constexpr const char* exchange_api_capsule = "dlpack_exchange_api";

enum class device_type : std::int32_t { cpu = 1, cuda = 2 };

struct device {
  device_type type;
  std::int32_t number;
};

// Codes of data types.
inline constexpr std::uint8_t signed_integer = 0;
inline constexpr std::uint8_t unsigned_integer = 1;
inline constexpr std::uint8_t floating_point = 2;
inline constexpr std::uint8_t brain_floating_point = 4;  // bfloat16

struct data_type {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct tensor {
  void* data;
  dlpack::device device;
  std::int32_t ndim;
  data_type dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements
  std::uint64_t byte_offset;
};

struct version {
  std::uint32_t major;
  std::uint32_t minor;
};

// Owns its memory.
struct managed_tensor {
  dlpack::version version;
  void* manager;
  void (*deleter)(managed_tensor* self);  // may be null
  std::uint64_t flags;
  tensor view;
};

struct exchange_api {
  dlpack::version version;
  const exchange_api* previous;
  // Uninitialised memory of the prototype's shape, type and device. May be null. Does not need the GIL.
  int (*allocate)(tensor* prototype, managed_tensor** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, managed_tensor** out);
  int (*managed_to_object)(managed_tensor* given, void** object);
  // Sizes and strides stay the object's. May be null. Both return 0, or -1 with a Python exception set.
  int (*view)(void* object, tensor* out);
  int (*current_stream)(device_type type, std::int32_t number, void** stream);
};

// The functions of an array type, or null if it has none of this version.
const exchange_api* exchange_of(py::handle type);

// Memory of the framework's allocator, which does not call Python; empty if the framework gives no such function.
device_allocator allocator_of(const exchange_api& exchange, device where);

}  // namespace warploom::python::dlpack
