#include <limits>
#include <string>

#include "common.hpp"
#include "warploom/csr_view.hpp"
#include "warploom/error.hpp"

namespace warploom::python {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

// Checks what the arrays say of themselves (sizes, types); validate() then checks what they say of the matrix.
csr_holder make_csr_view(py::array_t<std::int64_t, py::array::c_style> indptr,
                         py::array_t<std::int32_t, py::array::c_style> indices, const py::object& data,
                         std::int64_t num_rows, std::int64_t num_cols) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const auto check_size = [&](std::int64_t size, const char* what) {
    if (size < 0)
      throw error(error_kind::shape, "shape", -1, std::string(what) + " must not be negative, got " + number(size));
    if (size > most) {
      throw error(error_kind::index_overflow, "shape", -1,
                  number(size) + " " + what + " are beyond the 32-bit row and column index type (at most " +
                      number(most) + ")");
    }
  };
  check_size(num_rows, "rows");
  check_size(num_cols, "columns");
  if (indptr.ndim() != 1 || indptr.size() != num_rows + 1) {
    throw error(error_kind::invalid_matrix, "indptr", -1,
                "indptr must be one-dimensional with rows + 1 = " + number(num_rows + 1) + " entries, got " +
                    number(indptr.size()));
  }
  if (indices.ndim() != 1) throw error(error_kind::invalid_matrix, "indices", -1, "indices must be one-dimensional");

  csr_holder holder;
  holder.indptr = std::move(indptr);
  holder.indices = std::move(indices);
  holder.view.num_rows = num_rows;
  holder.view.num_cols = num_cols;
  holder.view.indptr = holder.indptr.data();
  holder.view.indices = holder.indices.data();
  const std::int64_t nnz = holder.view.nnz();
  if (nnz > holder.indices.size()) {
    throw error(error_kind::invalid_matrix, "indptr", num_rows,
                "indptr ends at " + number(nnz) + " but there are only " + number(holder.indices.size()) + " indices");
  }
  if (!data.is_none()) {
    py::array array = py::cast<py::array>(data);
    if (array.ndim() != 1 || array.size() < nnz) {
      throw error(
          error_kind::invalid_matrix, "data", array.ndim() == 1 ? array.size() : -1,
          "data must be one-dimensional with at least nnz = " + number(nnz) + " entries, got " + number(array.size()));
    }
    if (!(array.flags() & py::array::c_style))
      throw error(error_kind::invalid_matrix, "data", -1, "data must be contiguous");
    if (py::isinstance<py::array_t<float>>(array)) {
      holder.view.dtype = value_type::float32;
    } else if (py::isinstance<py::array_t<double>>(array)) {
      holder.view.dtype = value_type::float64;
    } else {
      throw error(error_kind::dtype, "data", -1,
                  "data must be float32 or float64, got " + py::cast<std::string>(py::str(array.dtype())));
    }
    holder.view.data = array.data();
    holder.data = std::move(array);
  }
  {
    const py::gil_scoped_release release;
    // indptr[0..num_rows] may overshoot before it comes back: validate() needs only that it never decreases.
    validate(holder.view);
  }
  return holder;
}

}  // namespace

void bind_csr_view(py::module_& module) {
  py::class_<csr_holder>(module, "CsrView", "A validated CSR matrix that looks at NumPy arrays without copying them.")
      .def(py::init(&make_csr_view), py::arg("indptr"), py::arg("indices"), py::arg("data").none(true),
           py::arg("num_rows"), py::arg("num_cols"))
      .def_property_readonly("shape",
                             [](const csr_holder& h) { return py::make_tuple(h.view.num_rows, h.view.num_cols); })
      .def_property_readonly("nnz", [](const csr_holder& h) { return h.view.nnz(); })
      .def_readonly("indptr", &csr_holder::indptr)
      .def_readonly("indices", &csr_holder::indices)
      .def_property_readonly("data", [](const csr_holder& h) -> py::object {
        return h.data ? py::object(*h.data) : py::object(py::none());
      });
}

}  // namespace warploom::python
