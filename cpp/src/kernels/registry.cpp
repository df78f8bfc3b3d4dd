// What both registries of kernels share: finding a kernel and completing its parameters.
#include <algorithm>
#include <string>

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

}  // namespace

std::span<const product_kernel> kernels(operation op) {
  return op == operation::spmm ? spmm_kernels() : spmv_kernels();
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

}  // namespace warploom
