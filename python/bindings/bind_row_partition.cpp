#include "common.hpp"
#include "warploom/row_partition.hpp"
#include "warploom/threads_per_row.hpp"

namespace warploom::python {
namespace {

py::array_t<bool> to_bool_array(const std::vector<std::uint8_t>& flags) {
  py::array_t<bool> array(static_cast<py::ssize_t>(flags.size()));
  for (std::size_t i = 0; i < flags.size(); ++i) array.mutable_at(i) = flags[i] != 0;
  return array;
}

// (row_block, nnz_block, is_long)
py::tuple partition(const csr_holder& matrix, std::int64_t long_row) {
  row_partition blocks;
  {
    const py::gil_scoped_release release;
    blocks = partition_rows({matrix.view.indptr, static_cast<std::size_t>(matrix.view.num_rows) + 1}, long_row);
  }
  return py::make_tuple(to_numpy(std::move(blocks.row_block)), to_numpy(std::move(blocks.nnz_block)),
                        to_bool_array(blocks.is_long));
}

row_partition make_partition(const py::array_t<std::int64_t>& row_block, const py::array_t<std::int64_t>& nnz_block,
                             const py::array_t<bool>& is_long) {
  return {{row_block.data(), row_block.data() + row_block.size()},
          {nnz_block.data(), nnz_block.data() + nnz_block.size()},
          {is_long.data(), is_long.data() + is_long.size()}};
}

}  // namespace

void bind_row_partition(py::module_& module) {
  module.def(
      "threads_per_row_mean",
      [](const csr_holder& matrix) { return threads_per_row_mean(matrix.view.num_rows, matrix.view.nnz()); },
      py::arg("matrix"));
  module.def(
      "threads_per_row_square_mean",
      [](const csr_holder& matrix) { return threads_per_row_square_mean(matrix.view.num_rows, matrix.view.nnz()); },
      py::arg("matrix"));
  module.def("partition_rows", &partition, py::arg("matrix"), py::arg("long_row"));
  module.def(
      "share_thread_blocks",
      [](const py::array_t<std::int64_t>& row_block, const py::array_t<std::int64_t>& nnz_block,
         const py::array_t<bool>& is_long, std::int32_t total) {
        return to_numpy(share_thread_blocks(make_partition(row_block, nnz_block, is_long), total));
      },
      py::arg("row_block"), py::arg("nnz_block"), py::arg("is_long"), py::arg("total"));
}

}  // namespace warploom::python
