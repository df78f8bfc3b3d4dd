#include "common.hpp"
#include "warploom/error.hpp"
#include "warploom/pattern_image.hpp"
#include "warploom/permutation.hpp"

namespace warploom::python {

void bind_pattern_image(py::module_& module) {
  using int32_array = py::array_t<std::int32_t, py::array::c_style>;
  module.def(
      "count_in_cells",
      [](const csr_holder& matrix, const std::optional<int32_array>& perm, std::int64_t height, std::int64_t width) {
        std::span<const std::int32_t> order;
        if (perm) {
          if (perm->ndim() != 1) throw error(error_kind::parameter, "perm", -1, "perm must be one-dimensional");
          order = {perm->data(), static_cast<std::size_t>(perm->size())};
          validate_permutation(order, matrix.view.num_rows);
        }
        std::vector<std::int64_t> counts;
        {
          const py::gil_scoped_release release;
          counts = count_in_cells(matrix.view, order, height, width);
        }
        return to_numpy(std::move(counts)).reshape({height, width});
      },
      py::arg("matrix"), py::arg("perm").none(true), py::arg("height"), py::arg("width"),
      "The nonzeros in each of height x width cells of the matrix, its rows permuted first.");
}

}  // namespace warploom::python
