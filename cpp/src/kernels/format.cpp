#include "warploom/formats/format.hpp"

#include "warploom/kernels/product.hpp"

namespace warploom {
namespace {

bool is_of_type(const option_value& value, const format_option& option) {
  if (!std::holds_alternative<std::monostate>(option.default_value)) {
    return value.index() == option.default_value.index();
  }
  return std::holds_alternative<std::monostate>(value) || std::holds_alternative<std::int64_t>(value);
}

// Those that are given and the defaults of the others.
option_values complete_options(const format_description& format, const std::map<std::string, option_value>& given) {
  std::map<std::string, option_value, std::less<>> values;
  for (const format_option& option : format.options) {
    const auto found = given.find(option.name);
    const option_value& value = found == given.end() ? option.default_value : found->second;
    if (!is_of_type(value, option)) {
      throw error(error_kind::parameter, option.name, -1, option.name + " is of another type");
    }
    values.emplace(option.name, value);
  }
  for (const auto& [name, value] : given) {
    if (!values.contains(name)) {
      throw error(error_kind::parameter, name, -1, "format " + format.name + " has no option '" + name + "'");
    }
  }
  return option_values(std::move(values));
}

}  // namespace

std::optional<std::int64_t> option_values::optional_integer(std::string_view name) const {
  const option_value& value = values_.find(name)->second;
  if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
  return std::get<std::int64_t>(value);
}

const format_description& find_format(std::string_view name) {
  std::string known;
  for (const format_description& format : formats()) {
    if (format.name == name) return format;
    known += (known.empty() ? "" : ", ") + format.name;
  }
  throw error(error_kind::parameter, "format", -1,
              "no format is called '" + std::string(name) + "'; there are " + known);
}

std::unique_ptr<stored_matrix> store(const format_description& format, const csr_view& matrix,
                                     const std::map<std::string, option_value>& given) {
  return format.from_csr(matrix, complete_options(format, given));
}

std::unique_ptr<stored_matrix> store_on_gpu(const format_description& format, const device_csr& matrix,
                                            const std::map<std::string, option_value>& given) {
  if (format.from_csr_on_gpu == nullptr) {
    throw error(error_kind::parameter, "format", -1, "format " + format.name + " is not made on a GPU");
  }
  if (summary_of(matrix).nnz > std::numeric_limits<std::int32_t>::max()) {
    throw error(error_kind::index_overflow, "matrix", -1, "conversions on a GPU take fewer than 2^31 nonzeros");
  }
  return format.from_csr_on_gpu(matrix, complete_options(format, given));
}

}  // namespace warploom
