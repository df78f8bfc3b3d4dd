#include <algorithm>
#include <atomic>
#include <limits>
#include <string>

#include "common.hpp"
#include "warploom/csr_view.hpp"
#include "warploom/error.hpp"
#include "warploom/parallel.hpp"

namespace warploom::python {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

[[noreturn]] void malformed(const char* argument, std::int64_t position, const std::string& message) {
  throw error(error_kind::invalid_matrix, argument, position, message);
}

std::string describe_dtype(const py::array& array) { return py::cast<std::string>(py::str(array.dtype())); }

void check_size(std::int64_t size, const char* what) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (size < 0) {
    throw error(error_kind::shape, "shape", -1, std::string(what) + " must not be negative, got " + number(size));
  }
  if (size > most) {
    throw error(
        error_kind::index_overflow, "shape", -1,
        number(size) + " " + what + " are beyond the 32-bit row and column index type (at most " + number(most) + ")");
  }
}

// Checks wide column indices in their own type, and only then narrows them.
template <class Wide>
py::array_t<std::int32_t> narrowed(const py::array_t<Wide>& wide, std::int64_t nnz, std::int64_t num_cols) {
  py::array_t<std::int32_t> narrow(nnz);
  const Wide* from = wide.data();
  std::int32_t* to = narrow.mutable_data();
  const py::gil_scoped_release release;
  validate_indices(from, nnz, num_cols);
  parallel_for(0, nnz, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) to[j] = static_cast<std::int32_t>(from[j]);
  });
  return narrow;
}

// 32-bit row offsets, checked as they are widened: NumPy does that on one thread, and checking is another pass.
py::array_t<std::int64_t> widened(const py::array_t<std::int32_t>& narrow) {
  py::array_t<std::int64_t> wide(narrow.size());
  const std::int32_t* from = narrow.data();
  std::int64_t* to = wide.mutable_data();
  const std::int64_t num_rows = narrow.size() - 1;
  const py::gil_scoped_release release;
  to[0] = from[0];
  std::atomic<bool> decreases = false;
  parallel_for(0, num_rows, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
    bool any = false;
    for (std::int64_t i = begin; i < end; ++i) {
      any |= from[i + 1] < from[i];
      to[i + 1] = from[i + 1];
    }
    if (any) decreases = true;
  });
  if (decreases || to[0] != 0) validate_indptr(to, num_rows);  // says where
  return wide;
}

// 64-bit row offsets, checked; those of other types are converted.
py::array_t<std::int64_t> checked(const py::array& offsets) {
  py::array_t<std::int64_t, py::array::c_style> indptr(offsets);
  {
    const py::gil_scoped_release release;
    validate_indptr(indptr.data(), indptr.size() - 1);
  }
  return indptr;
}

// Checks the sizes and types of the arrays, then their contents. An array that is longer than necessary is legal, as in
// SciPy.
csr_holder make_csr_view(const py::array& offsets, const py::array& indices, const py::object& data,
                         std::int64_t num_rows, std::int64_t num_cols) {
  check_size(num_rows, "rows");
  check_size(num_cols, "columns");
  if (offsets.ndim() != 1) malformed("indptr", -1, "indptr must be one-dimensional");
  if (offsets.size() != num_rows + 1) {
    malformed("indptr", -1,
              "indptr must have rows + 1 = " + number(num_rows + 1) + " entries, got " + number(offsets.size()));
  }
  if (indices.ndim() != 1) malformed("indices", -1, "indices must be one-dimensional");
  const bool narrow = py::isinstance<py::array_t<std::int32_t, py::array::c_style>>(offsets);
  csr_holder holder;
  holder.view.num_rows = num_rows;
  holder.view.num_cols = num_cols;
  holder.indptr = narrow ? widened(py::reinterpret_borrow<py::array_t<std::int32_t>>(offsets)) : checked(offsets);
  holder.view.indptr = holder.indptr.data();
  const std::int64_t nnz = holder.view.nnz();
  if (nnz > indices.size()) {
    const std::int64_t* first = holder.view.indptr;
    malformed("indptr", std::upper_bound(first, first + num_rows + 1, indices.size()) - first,
              "indptr ends at " + number(nnz) + " but there are only " + number(indices.size()) + " indices");
  }
  if (!(indices.flags() & py::array::c_style)) malformed("indices", -1, "indices must be contiguous");
  if (py::isinstance<py::array_t<std::int32_t>>(indices)) {
    holder.indices = py::array_t<std::int32_t>(indices);
    const std::int32_t* columns = holder.indices.data();
    const py::gil_scoped_release release;
    validate_indices(columns, nnz, num_cols);
  } else if (py::isinstance<py::array_t<std::int64_t>>(indices)) {
    holder.indices = narrowed(py::array_t<std::int64_t>(indices), nnz, num_cols);
  } else if (py::isinstance<py::array_t<std::uint64_t>>(indices)) {
    holder.indices = narrowed(py::array_t<std::uint64_t>(indices), nnz, num_cols);
  } else {
    throw error(error_kind::dtype, "indices", -1,
                "indices must be int32, int64 or uint64, got " + describe_dtype(indices));
  }
  holder.view.indices = holder.indices.data();
  if (!data.is_none()) {
    py::array array = py::cast<py::array>(data);
    if (array.ndim() != 1) malformed("data", -1, "data must be one-dimensional");
    if (array.size() < nnz) {
      malformed("data", array.size(),
                "data must have at least nnz = " + number(nnz) + " entries, got " + number(array.size()));
    }
    if (!(array.flags() & py::array::c_style)) malformed("data", -1, "data must be contiguous");
    const std::optional<value_type> dtype = value_type_of(array);
    if (!dtype) {
      throw error(error_kind::dtype, "data", -1,
                  "data must be float16, bfloat16, float32 or float64, got " + describe_dtype(array));
    }
    holder.view.dtype = *dtype;
    holder.view.data = array.data();
    holder.data = std::move(array);
  }
  return holder;
}

}  // namespace

void bind_csr_view(py::module_& module) {
  py::class_<csr_holder>(module, "CsrView", "A validated CSR matrix: a view of NumPy arrays, without a copy.")
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
