#include "warploom/candidate.hpp"

#include <algorithm>
#include <charconv>

#include "warploom/error.hpp"
#include "warploom/permutation.hpp"

namespace warploom {
namespace {

[[noreturn]] void refuse(const std::string& argument, const std::string& message) {
  throw error(error_kind::parameter, argument, -1, message);
}

std::string quoted(std::string_view text) {
  std::string result = "'";
  result += text;
  return result += '\'';
}

[[noreturn]] void refuse_form(std::string_view name) {
  refuse("candidate", quoted(name) + " is not a candidate; expected op/permutation/format/kernel[parameter=value,...]");
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// Up to `separator`, which is left out; `text` keeps what follows.
std::string_view take_until(std::string_view& text, char separator) {
  const auto end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return taken;
}

void parse_parameter(std::string_view setting, std::string_view name, parameter_values& parameters) {
  std::string_view rest = setting;
  const std::string key(trim(take_until(rest, '=')));
  const std::string_view text = trim(rest);
  if (parameters.contains(key)) refuse(key, quoted(name) + " gives " + key + " twice");
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) {
    refuse("candidate", quoted(setting) + " in " + quoted(name) + " is not parameter=integer");
  }
  parameters[key] = value;
}

// The part of a name in brackets.
parameter_values parse_parameters(std::string_view text, std::string_view name) {
  parameter_values parameters;
  while (!text.empty()) {
    const std::string_view setting = take_until(text, ',');
    if (!setting.empty()) parse_parameter(setting, name, parameters);
  }
  return parameters;
}

std::vector<parameter_values> settings(const product_kernel& kernel, bool on_gpu) {
  std::vector<parameter_values> found{{}};
  for (const parameter& p : kernel.parameters) {
    const std::vector<int> values = on_gpu || p.on_cpu ? p.tried : std::vector<int>{p.default_value};
    std::vector<parameter_values> longer;
    for (const parameter_values& setting : found) {
      for (const int value : values) {
        longer.push_back(setting);
        longer.back()[p.name] = value;
      }
    }
    found = std::move(longer);
  }
  return found;
}

// `*` stands for any characters and `?` for one. Goes back to the last `*` only, which suffices.
bool matches_pattern(std::string_view name, std::string_view pattern) {
  std::size_t at = 0, in_pattern = 0;
  std::size_t star = std::string_view::npos, tried_from = 0;
  while (at < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      tried_from = at;
    } else if (in_pattern < pattern.size() && (pattern[in_pattern] == '?' || pattern[in_pattern] == name[at])) {
      ++in_pattern;
      ++at;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      at = ++tried_from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

}  // namespace

std::string candidate::name_without_parameters() const {
  return std::string(name_of(kernel->op)) + "/" + permutation + "/" + kernel->label();
}

std::string candidate::name() const {
  std::string name = name_without_parameters();
  char separator = '[';
  for (const parameter& p : kernel->parameters) {
    const int value = parameters.at(p.name);
    if (value == p.default_value) continue;
    name += separator + p.name + '=' + std::to_string(value);
    separator = ',';
  }
  if (separator == ',') name += ']';
  return name;
}

bool candidate::has_default_parameters() const {
  return std::all_of(kernel->parameters.begin(), kernel->parameters.end(),
                     [&](const parameter& p) { return parameters.at(p.name) == p.default_value; });
}

candidate make_candidate(const product_kernel& kernel, const std::string& permutation,
                         const parameter_values& parameters) {
  find_permutation(permutation);
  if (permutation != "none" && !kernel.permutes) {
    refuse("candidate", "kernel " + kernel.label() + " does not take a row permutation, got '" + permutation + "'");
  }
  return {&kernel, permutation, complete_parameters(kernel, parameters)};
}

candidate parse_candidate(std::string_view name) {
  std::string_view rest = name;
  std::string_view bracketed;
  if (const auto open = name.find('['); open != std::string_view::npos) {
    bracketed = name.substr(open + 1);
    rest = name.substr(0, open);
    if (bracketed.find_first_of("[]") != bracketed.size() - 1 || bracketed.back() != ']') refuse_form(name);
    bracketed.remove_suffix(1);
  }
  if (std::count(rest.begin(), rest.end(), '/') != 3) refuse_form(name);
  const std::string op(take_until(rest, '/')), permutation(take_until(rest, '/')), format(take_until(rest, '/'));
  if (op.empty() || permutation.empty() || format.empty() || rest.empty()) refuse_form(name);
  if (rest.find(']') != std::string_view::npos) refuse_form(name);
  const parameter_values parameters = parse_parameters(bracketed, name);
  const auto known = permutation_algorithms();
  if (std::none_of(known.begin(), known.end(), [&](const auto& p) { return permutation == p.name; })) {
    std::string names;
    for (const auto& p : known) names += (names.empty() ? "" : ", ") + std::string(p.name);
    refuse("candidate", "unknown row permutation '" + permutation + "'; known: " + names);
  }
  return make_candidate(find_kernel(parse_operation(op), format, rest), permutation, parameters);
}

std::vector<candidate> enumerate_candidates(operation op, const candidate_filter& filter) {
  std::vector<const product_kernel*> chosen;
  for (const product_kernel& kernel : kernels(op)) {
    const bool fits = (!filter.order || kernel.works_on(*filter.order)) &&
                      (!filter.dtype || kernel.works_on(*filter.dtype)) && (filter.on_gpu || kernel.runs_on_cpu()) &&
                      is_precise_enough(kernel, filter.precision) && (!filter.tried_on_cpu || kernel.tried_on_cpu);
    if (fits) chosen.push_back(&kernel);
  }
  std::vector<candidate> found;
  for (const product_kernel* kernel : chosen) {
    for (const parameter_values& setting : settings(*kernel, filter.on_gpu)) {
      found.push_back({kernel, "none", setting});
    }
  }
  for (const product_kernel* kernel : chosen) {
    if (!kernel->permutes || filter.tried_on_cpu) continue;
    for (const permutation_algorithm& permutation : permutation_algorithms()) {
      if (std::string_view(permutation.name) != "none") found.push_back(make_candidate(*kernel, permutation.name));
    }
  }
  return found;
}

bool matches(std::string_view name, const name_patterns& patterns) {
  if (!patterns) return true;
  return std::any_of(patterns->begin(), patterns->end(),
                     [&](const std::string& pattern) { return matches_pattern(name, pattern); });
}

const product_kernel& baseline_kernel(operation op, layout order) {
  for (const product_kernel& kernel : kernels(op)) {
    if (std::find(kernel.baseline_for.begin(), kernel.baseline_for.end(), order) != kernel.baseline_for.end()) {
      return kernel;
    }
  }
  refuse("layout",
         std::string("no ") + name_of(op) + " kernel is the baseline for " + name_of(order) + "-major operands");
}

const product_kernel& cpu_baseline_kernel(operation op, layout order) {
  for (const product_kernel& kernel : kernels(op)) {
    if (kernel.tried_on_cpu && kernel.format == "csr" && kernel.works_on(order)) return kernel;
  }
  return baseline_kernel(op, order);
}

bool is_precise_enough(const product_kernel& kernel, product_precision wanted) {
  return kernel.precision == product_precision::full || kernel.precision == wanted;
}

bool is_redundant(const candidate& tried, const matrix_summary& matrix, std::int64_t k, layout order) {
  const product_kernel& kernel = *tried.kernel;
  if (kernel.hopeless && kernel.hopeless(matrix)) return true;
  if (!kernel.redundant || tried.has_default_parameters()) return false;
  product_request request;
  request.k = k;
  request.order = order;
  request.parameters = tried.parameters;
  return kernel.redundant(matrix, request);
}

operation parse_operation(std::string_view name) {
  if (name == "spmm") return operation::spmm;
  if (name == "spmv") return operation::spmv;
  refuse("op", "unknown operation '" + std::string(name) + "'; known: spmm, spmv");
}

product_precision parse_precision(std::string_view name) {
  if (name == "full") return product_precision::full;
  if (name == "tf32") return product_precision::tf32;
  refuse("precision", "precision must be one of full, tf32, got '" + std::string(name) + "'");
}

layout parse_layout(std::string_view name) {
  if (name == "row") return layout::row_major;
  if (name == "column") return layout::column_major;
  refuse("layout", "layout must be 'row' or 'column', got '" + std::string(name) + "'");
}

}  // namespace warploom
