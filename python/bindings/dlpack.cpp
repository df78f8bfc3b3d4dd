#include "dlpack.hpp"

#include <exception>
#include <memory>
#include <string>

#include "warploom/error.hpp"

namespace warploom::python::dlpack {
namespace {

void keep_message(void* context, const char*, const char* message) {
  *static_cast<std::string*>(context) = message == nullptr ? "" : message;
}

}  // namespace

const exchange_api* exchange_of(py::handle type) {
  const py::object capsule = py::getattr(type, exchange_api_attribute, py::none());
  if (!PyCapsule_IsValid(capsule.ptr(), exchange_api_capsule)) return nullptr;
  const auto* found = static_cast<const exchange_api*>(PyCapsule_GetPointer(capsule.ptr(), exchange_api_capsule));
  while (found != nullptr && found->version.major != major_version) found = found->previous;
  return found != nullptr && found->view != nullptr ? found : nullptr;
}

device_allocator allocator_of(const exchange_api& exchange, device where) {
  if (exchange.allocate == nullptr) return {};
  return [&exchange, where](std::size_t bytes) -> std::shared_ptr<void> {
    device_allocation_may_fail(bytes);
    auto size = static_cast<std::int64_t>(bytes);
    std::int64_t stride = 1;
    tensor wanted{};
    wanted.device = where;
    wanted.ndim = 1;
    wanted.dtype = {unsigned_integer, 8, 1};
    wanted.shape = &size;
    wanted.strides = &stride;
    managed_tensor* made = nullptr;
    std::string message;
    const auto allocate = [&] {
      made = nullptr;
      return exchange.allocate(&wanted, &made, &message, keep_message) == 0 && made != nullptr;
    };
    // A framework frees what it keeps itself, but not what the pools here do.
    const auto allocate_again = [&] {
      release_unused_memory();
      return allocate();
    };
    if (!allocate() && !allocate_again()) {
      throw error(error_kind::out_of_memory, "", -1,
                  std::to_string(bytes) + " bytes could not be allocated" + (message.empty() ? "" : ": " + message));
    }
    void* const data = static_cast<std::byte*>(made->view.data) + made->view.byte_offset;
    return std::shared_ptr<void>(data, [made](void*) {
      if (made->deleter != nullptr) made->deleter(made);
    });
  };
}

}  // namespace warploom::python::dlpack
