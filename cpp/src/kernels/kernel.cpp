// What all kernels share: being found by name, completing parameters, and being prepared.
#include <algorithm>
#include <string>

#include "kernels/description.hpp"
#include "warploom/error.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {
namespace {

template <class Items, class Name>
std::string join(const Items& items, Name name) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + name(item);
  return text;
}

void check_parameter(const product_kernel& kernel, const std::string& name, int value) {
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

void check_input(const product_kernel& kernel, const std::string& name) {
  const bool known = std::any_of(kernel.inputs.begin(), kernel.inputs.end(),
                                 [&](const kernel_input& input) { return input.name == name; });
  if (known) return;
  throw error(error_kind::parameter, name, -1, kernel.label() + " takes no " + name);
}

void check_inputs(const product_kernel& kernel, const product_request& request) {
  for (const auto& [name, values] : request.inputs) check_input(kernel, name);
}

void refuse(const product_kernel& kernel, const std::string& reason) { refuse_candidate(kernel.label(), reason); }

}  // namespace

bool product_kernel::works_on(value_type dtype) const {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

bool product_kernel::works_on(layout order) const {
  return std::find(layouts.begin(), layouts.end(), order) != layouts.end();
}

const product_kernel& find_kernel(operation op, std::string_view format, std::string_view name) {
  const auto known = kernels(op);
  for (const auto& kernel : known) {
    if (kernel.format == format && kernel.name == name) return kernel;
  }
  throw error(error_kind::parameter, "candidate", -1,
              std::string("unknown ") + (op == operation::spmm ? "SpMM" : "SpMV") + " kernel '" + std::string(format) +
                  "/" + std::string(name) + "'; known: " +
                  join(known, [](const product_kernel& kernel) { return kernel.format + "/" + kernel.name; }));
}

parameter_values complete_parameters(const product_kernel& kernel, const parameter_values& given) {
  for (const auto& [name, value] : given) check_parameter(kernel, name, value);
  parameter_values complete = given;
  for (const parameter& p : kernel.parameters) complete.emplace(p.name, p.default_value);
  return complete;
}

matrix_summary summarize(const csr_view& matrix) {
  matrix_summary summary{matrix.num_rows, matrix.num_cols, matrix.nnz(), 0, 0, 0, matrix.dtype};
  if (matrix.num_rows == 0) return summary;
  summary.shortest_row = summary.longest_row = matrix.row_length(0);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    const std::int64_t length = matrix.row_length(row);
    summary.shortest_row = std::min(summary.shortest_row, length);
    summary.longest_row = std::max(summary.longest_row, length);
    summary.empty_rows += length == 0;
  }
  return summary;
}

std::string reason_against(const product_kernel& kernel, const matrix_summary& matrix, const product_request& request) {
  if (!kernel.works_on(matrix.dtype)) return std::string("does not work on ") + name_of(matrix.dtype);
  if ((request.perm.data() != nullptr || request.row_ids) && !kernel.permutes) return "does not take a row permutation";
  if (kernel.op == operation::spmm && !kernel.works_on(request.order)) {  // a vector has either layout
    return std::string("needs ") + name_of(kernel.layouts.front()) + "-major B and C";
  }
  return kernel.unsupported_reason(matrix, request);
}

std::string reason_against(const product_kernel& kernel, const csr_view& matrix, const product_request& request) {
  const std::string reason = reason_against(kernel, summarize(matrix), request);
  return reason.empty() && kernel.pattern_reason ? kernel.pattern_reason(matrix, request) : reason;
}

std::unique_ptr<product_plan> prepare(const product_kernel& kernel, const csr_view& matrix,
                                      const product_request& request) {
  check_inputs(kernel, request);
  if (!kernel.runs_on_cpu()) {
    throw error(error_kind::parameter, "candidate", -1, kernel.label() + " runs on a GPU only");
  }
  refuse(kernel, reason_against(kernel, matrix, request));
  return kernel.prepare_cpu(matrix, request);
}

std::unique_ptr<product_plan> prepare(const product_kernel& kernel, const device_csr& matrix,
                                      const product_request& request, const device_allocator& allocate) {
  check_inputs(kernel, request);
  refuse(kernel, reason_against(kernel, summary_of(matrix), request));
  if (!kernel.from_device && kernel.pattern_reason) refuse(kernel, kernel.pattern_reason(host_copy(matrix), request));
  if (kernel.launch_limit) {
    const std::string limit = kernel.launch_limit(summary_of(matrix), request);
    if (!limit.empty()) throw error(error_kind::index_overflow, "candidate", -1, kernel.label() + " " + limit);
  }
  const bool moves = !request.perm.empty() || request.row_ids;
  if (!moves || !kernel.from_device) return kernel.prepare_cuda(matrix, request, allocate);
  product_request moved = request;
  moved.perm = {};
  if (!moved.row_ids) moved.row_ids = upload_permutation(request.perm, allocate);
  const std::shared_ptr<const device_csr> rows = permute_csr(matrix, moved.row_ids, allocate);
  return kernel.prepare_cuda(*rows, moved, allocate);
}

}  // namespace warploom
