#include <string>

#include "common.hpp"
#include "device/cuda_function.hpp"
#include "features/column_vectors.hpp"
#include "features/hidden_overlap.hpp"
#include "warploom/device.hpp"
#include "warploom/features.hpp"
#include "warploom/locality.hpp"
#include "warploom/vector_features.hpp"

namespace warploom::python {
namespace {

py::tuple feature_set_names() {
  py::list names;
  for (const feature_set& set : feature_sets()) names.append(set.name);
  return py::tuple(names);
}

py::tuple feature_names(const std::string& set_name) {
  py::list names;
  for (const char* name : find_feature_set(set_name).names) names.append(name);
  return py::tuple(names);
}

py::array_t<double> compute_features(const std::string& set_name, const csr_holder& matrix, int warps, int threads,
                                     int elements_per_cache_line) {
  const feature_set& set = find_feature_set(set_name);
  const geometry shape = make_geometry(warps, threads, elements_per_cache_line);
  std::vector<double> values(set.names.size());
  {
    const py::gil_scoped_release release;
    set.compute(matrix.view, shape, values.data());
  }
  return to_numpy(std::move(values));
}

py::array_t<double> compute_on_device(const feature_set& set, int device, const device_csr_arrays& arrays,
                                      const geometry& shape, CUstream_st* stream) {
  std::vector<double> values;
  {
    const py::gil_scoped_release release;
    const device_guard guard(device);
    values = set.start_cuda(arrays, shape, stream)();
  }
  return to_numpy(std::move(values));
}

py::array_t<double> compute_features_device(const std::string& set_name, const resident_csr& matrix, int warps,
                                            int threads, int elements_per_cache_line) {
  return compute_on_device(find_feature_set(set_name), matrix.device, arrays_of(*matrix.matrix),
                           make_geometry(warps, threads, elements_per_cache_line), nullptr);
}

// Arrays of another library, by their addresses. The Python layer checks their sizes.
py::array_t<double> compute_features_of_arrays(const std::string& set_name, int device, std::uintptr_t indptr,
                                               int indptr_itemsize, std::uintptr_t indices, int indices_itemsize,
                                               std::int64_t num_indices, std::int64_t num_rows, std::int64_t num_cols,
                                               std::uintptr_t stream, int warps, int threads,
                                               int elements_per_cache_line) {
  device_csr_arrays arrays;
  arrays.num_rows = num_rows;
  arrays.num_cols = num_cols;
  arrays.num_indices = num_indices;
  arrays.indptr = reinterpret_cast<const void*>(indptr);
  arrays.indices = reinterpret_cast<const void*>(indices);
  arrays.wide_indptr = is_wide(indptr_itemsize, "indptr");
  arrays.wide_indices = is_wide(indices_itemsize, "indices");
  return compute_on_device(find_feature_set(set_name), device, arrays,
                           make_geometry(warps, threads, elements_per_cache_line),
                           reinterpret_cast<CUstream_st*>(stream));
}

py::tuple to_tuple(std::span<const char* const> texts) {
  py::list names;
  for (const char* name : texts) names.append(name);
  return py::tuple(names);
}

py::tuple locality_names() { return to_tuple(locality_feature_names()); }
py::tuple overlap_names() { return to_tuple(overlap_feature_names()); }
py::tuple column_vector_names() { return to_tuple(column_vector_feature_names()); }

template <std::vector<double> (*features)(const csr_pattern&)>
py::array_t<double> compute_on_host(const csr_holder& matrix) {
  std::vector<double> values;
  {
    const py::gil_scoped_release release;
    values = features(matrix.view);
  }
  return to_numpy(std::move(values));
}

py::array_t<double> column_vectors_on_device(const resident_csr& matrix) {
  std::vector<double> values;
  {
    const py::gil_scoped_release release;
    const device_guard guard(matrix.device);
    values = WARPLOOM_CUDA(start_cuda_column_vector_features)(*matrix.matrix)();
  }
  return to_numpy(std::move(values));
}

double overlap_on_host(const csr_holder& matrix, std::int64_t fewest_nonzeros) {
  const py::gil_scoped_release release;
  return hidden_overlap(matrix.view, fewest_nonzeros);
}

double overlap_on_device(const resident_csr& matrix, std::int64_t fewest_nonzeros) {
  const py::gil_scoped_release release;
  const device_guard guard(matrix.device);
  return WARPLOOM_CUDA(compute_cuda_hidden_overlap)(*matrix.matrix, fewest_nonzeros);
}

}  // namespace

void bind_features(py::module_& module) {
  const geometry usual;
  module.def("locality_feature_names", &locality_names);
  module.def("compute_locality_features", &compute_on_host<locality_features>, py::arg("matrix"));
  module.attr("NOT_MEASURED") = not_measured;
  module.attr("FEWEST_NONZEROS_OF_OVERLAP") = fewest_nonzeros_of_overlap;
  module.def("overlap_feature_names", &overlap_names, "Of those, what models take.");
  module.def("compute_hidden_overlap", &overlap_on_host, py::arg("matrix"),
             py::arg("fewest_nonzeros") = fewest_nonzeros_of_overlap, "-1 for matrices of fewer nonzeros.");
  module.def("compute_hidden_overlap_device", &overlap_on_device, py::arg("matrix"),
             py::arg("fewest_nonzeros") = fewest_nonzeros_of_overlap,
             "That of a matrix that was uploaded, computed on its GPU.");
  module.def("column_vector_feature_names", &column_vector_names);
  module.def("compute_column_vector_features", &compute_on_host<column_vector_features>, py::arg("matrix"));
  module.def("compute_column_vector_features_device", &column_vectors_on_device, py::arg("matrix"),
             "Those of a matrix that was uploaded, computed on its GPU.");
  module.def("feature_set_names", &feature_set_names);
  module.def("feature_names", &feature_names, py::arg("name"));
  module.def("compute_features", &compute_features, py::arg("name"), py::arg("matrix"), py::arg("warps") = usual.warps,
             py::arg("threads") = usual.threads, py::arg("elements_per_cache_line") = usual.elements_per_cache_line);
  module.def("compute_features_device", &compute_features_device, py::arg("name"), py::arg("matrix"),
             py::arg("warps") = usual.warps, py::arg("threads") = usual.threads,
             py::arg("elements_per_cache_line") = usual.elements_per_cache_line,
             "Features of a matrix that was uploaded, computed on its GPU.");
  module.def("compute_features_of_arrays", &compute_features_of_arrays, py::arg("name"), py::arg("device"),
             py::arg("indptr"), py::arg("indptr_itemsize"), py::arg("indices"), py::arg("indices_itemsize"),
             py::arg("num_indices"), py::arg("num_rows"), py::arg("num_cols"), py::arg("stream"), py::kw_only(),
             py::arg("warps") = usual.warps, py::arg("threads") = usual.threads,
             py::arg("elements_per_cache_line") = usual.elements_per_cache_line,
             "Features of a CSR matrix whose arrays are in the memory of a GPU, given by their addresses.");
}

}  // namespace warploom::python
