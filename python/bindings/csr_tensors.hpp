// CSR matrices whose arrays are tensors of PyTorch in the memory of a GPU, read without a step in Python: it takes
// microseconds there, as many as a small matrix takes to be converted.
#pragma once

#include <optional>

#include "common.hpp"
#include "warploom/device.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::python {

struct csr_tensors {
  device_csr_view matrix;
  device_allocator allocate;  // PyTorch's
  py::tuple owner;            // of what is viewed
};

// Of a CSR tensor or a warploom.CSR of three tensors. Nothing for any other matrix, and unless the three are dense
// vectors on that GPU of which no value has to be converted or refused: integers of 32 or 64 bits, and values of
// `dtype` or, without one, of any type that kernels work on.
std::optional<csr_tensors> view_csr_tensors(py::handle A, int device, std::optional<value_type> dtype);

}  // namespace warploom::python
