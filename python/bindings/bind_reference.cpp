// What products are compared with: sums in float64, and the fewest bytes that they move.
#include <cstdint>
#include <string>

#include "common.hpp"
#include "host_operands.hpp"
#include "warploom/error.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::python {
namespace {

py::tuple reference(const csr_holder& matrix, const py::array& B) {
  check_has_values(matrix);
  const bool row_major = B.ndim() != 2 || leading_dimension(B, layout::row_major) >= 0;
  const layout order = row_major ? layout::row_major : layout::column_major;
  const dense_view B_view = view_dense(B, order, matrix.view.dtype, "B");
  check_shape(B_view, matrix.view.num_cols, B_view.num_cols, "B");
  py::array_t<double> C({matrix.view.num_rows, B_view.num_cols});
  py::array_t<double> absolute({matrix.view.num_rows, B_view.num_cols});
  double* const C_data = C.mutable_data();
  double* const absolute_data = absolute.mutable_data();
  {
    const py::gil_scoped_release release;
    reference_product(matrix.view, B_view, order, C_data, absolute_data);
  }
  return py::make_tuple(C, absolute);
}

std::int64_t floor_bytes(const csr_holder& matrix, std::int64_t k) {
  if (k < 1) throw error(error_kind::parameter, "k", -1, "k must be at least 1, got " + std::to_string(k));
  const py::gil_scoped_release release;
  return product_floor_bytes(matrix.view, k, matrix.view.dtype);
}

}  // namespace

void bind_reference(py::module_& module) {
  module.def("reference_product", &reference, py::arg("matrix"), py::arg("B"),
             "The product and |A| |B|, both summed in float64.");
  module.def("product_floor_bytes", &floor_bytes, py::arg("matrix"), py::arg("k"),
             "Minimum number of bytes that a product moves: A in CSR, the rows of B it refers to, and C, once each.");
}

}  // namespace warploom::python
