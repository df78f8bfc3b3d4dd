// The visible list of SpMM kernels: a new one is a file, its entry points and an entry here.
#include <algorithm>
#include <limits>
#include <string>

#include "kernels/cpu/spmm/prepare.hpp"
#include "kernels/cuda/spmm/prepare.hpp"
#include "warploom/error.hpp"
#include "warploom/kernels/spmm.hpp"

namespace warploom {
namespace {

const std::vector<parameter> c_stationary_parameters{
    {"threads_per_row", 32, {1, 2, 4, 8, 16, 32}, "GPU threads that share the nonzeros of a row"},
    {"tile_width", 4, {1, 2, 4, 8, 16}, "columns of C whose sums are held in registers at a time"},
    {"rows_per_block", 0, {0, 32, 64, 128, 256}, "rows per thread block of the GPU; 0: the rows are dealt to one wave"},
};

const std::vector<parameter> row_split_parameters{
    {"threads_per_row", 0, {0, 4, 8, 16, 32}, "GPU threads side by side on the columns of a row; 0: chosen from k"},
    {"columns_per_thread", 0, {0, 1, 2, 4, 8}, "columns of C per GPU thread; 0: chosen from k"},
};

const std::vector<parameter> segmented_parameters{
    row_split_parameters[0],
    row_split_parameters[1],
    {"segment_length", 128, {32, 64, 128, 256, 512}, "most nonzeros of a row that are summed in one piece"},
};

std::string needs_layout(const spmm_request& request, layout needed) {
  if (request.order == needed) return "";
  return needed == layout::row_major ? "needs row-major B and C" : "needs column-major B and C";
}

std::string needs_column_major(const csr_view&, const spmm_request& request) {
  return needs_layout(request, layout::column_major);
}

std::string needs_row_major(const csr_view&, const spmm_request& request) {
  return needs_layout(request, layout::row_major);
}

std::string needs_row_major_and_32_bit_offsets(const csr_view& matrix, const spmm_request& request) {
  if (matrix.nnz() > std::numeric_limits<std::int32_t>::max()) return "needs fewer than 2^31 nonzeros";
  return needs_layout(request, layout::row_major);
}

const std::vector<spmm_kernel> kernels{
    {
        .name = "c_stationary",
        .format = "csr",
        .summary = "Algorithm 1 of Mehrabi et al. 2021: a tile of columns of C at a time, all rows over the warps.",
        .layouts = {layout::column_major},
        .parameters = c_stationary_parameters,
        .unsupported_reason = needs_column_major,
        .prepare_cpu = prepare_cpu_c_stationary_csr,
        .prepare_cuda = prepare_cuda_c_stationary_csr,
    },
    {
        .name = "c_stationary",
        .format = "dcsr",
        .summary = "c_stationary over the nonempty rows only; the empty rows of C are cleared.",
        .layouts = {layout::column_major},
        .parameters = c_stationary_parameters,
        .unsupported_reason = needs_column_major,
        .prepare_cpu = prepare_cpu_c_stationary_dcsr,
        .prepare_cuda = prepare_cuda_c_stationary_dcsr,
    },
    {
        .name = "row_split",
        .format = "csr",
        .summary = "Threads side by side on the columns of a row of C; every nonzero reads a run of a row of B.",
        .layouts = {layout::row_major},
        .parameters = row_split_parameters,
        .unsupported_reason = needs_row_major,
        .prepare_cpu = prepare_cpu_row_split_csr,
        .prepare_cuda = prepare_cuda_row_split_csr,
    },
    {
        .name = "row_split",
        .format = "dcsr",
        .summary = "row_split over the nonempty rows only; the empty rows of C are cleared.",
        .layouts = {layout::row_major},
        .parameters = row_split_parameters,
        .unsupported_reason = needs_row_major,
        .prepare_cpu = prepare_cpu_row_split_dcsr,
        .prepare_cuda = prepare_cuda_row_split_dcsr,
    },
    {
        .name = "row_split",
        .format = "segmented-csr",
        .summary = "row_split with long rows cut into segments, whose partial sums are added in a fixed order.",
        .layouts = {layout::row_major},
        .parameters = segmented_parameters,
        .unsupported_reason = needs_row_major_and_32_bit_offsets,
        .prepare_cpu = prepare_cpu_row_split_segmented_csr,
        .prepare_cuda = prepare_cuda_row_split_segmented_csr,
    },
};

template <class Items, class Name>
std::string join(const Items& items, Name name) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + name(item);
  return text;
}

void check_parameter(const spmm_kernel& kernel, const std::string& name, int value) {
  const auto known = std::find_if(kernel.parameters.begin(), kernel.parameters.end(),
                                  [&](const parameter& p) { return p.name == name; });
  if (known == kernel.parameters.end()) {
    throw error(error_kind::parameter, name, -1,
                kernel.format + "/" + kernel.name + " has no parameter '" + name +
                    "'; known: " + join(kernel.parameters, [](const parameter& p) { return p.name; }));
  }
  const std::vector<int>& accepted = known->values;
  if (std::find(accepted.begin(), accepted.end(), value) == accepted.end()) {
    throw error(error_kind::parameter, name, -1,
                name + " of " + kernel.format + "/" + kernel.name + " must be one of " +
                    join(accepted, [](int v) { return std::to_string(v); }) + ", got " + std::to_string(value));
  }
}

}  // namespace

std::span<const spmm_kernel> spmm_kernels() { return kernels; }

const spmm_kernel& find_spmm_kernel(std::string_view format, std::string_view name) {
  for (const auto& kernel : kernels) {
    if (kernel.format == format && kernel.name == name) return kernel;
  }
  throw error(error_kind::parameter, "candidate", -1,
              "unknown SpMM kernel '" + std::string(format) + "/" + std::string(name) + "'; known: " +
                  join(kernels, [](const spmm_kernel& kernel) { return kernel.format + "/" + kernel.name; }));
}

parameter_values complete_parameters(const spmm_kernel& kernel, const parameter_values& given) {
  for (const auto& [name, value] : given) check_parameter(kernel, name, value);
  parameter_values complete = given;
  for (const parameter& p : kernel.parameters) complete.emplace(p.name, p.default_value);
  return complete;
}

}  // namespace warploom
