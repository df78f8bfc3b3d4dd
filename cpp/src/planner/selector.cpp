#include "warploom/selector.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "planner/model_inputs.hpp"
#include "warploom/error.hpp"
#include "warploom/locality.hpp"
#include "warploom/vector_features.hpp"

namespace warploom {
namespace {

[[noreturn]] void refuse(const std::string& argument, const std::string& message) {
  throw error(error_kind::profile, argument, -1, message);
}

[[noreturn]] void refuse_facts(const std::string& message) {
  refuse("metrics", "facts about a selector are damaged: " + message);
}

// What the names of models begin with that read the features of SpMV only.
constexpr std::string_view quick_prefix = "quick-";

// Preparation does not depend on the state of the cache.
std::string preparation_name(const std::string& name) {
  const std::size_t begin = name.starts_with(quick_prefix) ? quick_prefix.size() : 0;
  return "preparation-" + name.substr(begin, name.find_last_of('-') - begin);
}

// The model of what computing features takes; its only output is the set "spmm".
constexpr const char* features_model = "features";

const trained_model& model_called(const profile& from, const std::string& name) {
  const auto found = from.models.find(name);
  if (found == from.models.end()) refuse("models", "the profile has no model '" + name + "'");
  return *found->second;
}

double number_of(const json& facts, const char* key) {
  const json* const value = facts.find(key);
  double number = 0;
  if (!value || !value->to_double(number)) refuse_facts(std::string("'") + key + "'");
  return number;
}

// A whole number with commas between thousands.
std::string grouped(double number) {
  char digits[400];
  std::snprintf(digits, sizeof digits, "%.0f", number);
  const std::string_view all = digits;
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && (all.size() - i) % 3 == 0 && all[i - 1] != '-') text.push_back(',');
    text.push_back(all[i]);
  }
  return text;
}

// Sizes of the training data.
struct size_range {
  const problem_size* size;
  double least;
  double most;
};

std::vector<size_range> ranges_of(const json& facts) {
  std::vector<size_range> ranges;
  const json* const given = facts.find("sizes");
  if (!given) return ranges;
  if (!given->as_object()) refuse_facts("'sizes'");
  const std::span<const problem_size> sizes = problem_sizes();
  for (const auto& [name, range] : *given->as_object()) {
    const auto known =
        std::find_if(sizes.begin(), sizes.end(), [&wanted = name](const auto& size) { return size.name == wanted; });
    const json::array* const bounds = range.as_array();
    size_range read{known == sizes.end() ? nullptr : &*known, 0, 0};
    if (!bounds || bounds->size() != 2 || !bounds->front().to_double(read.least) ||
        !bounds->back().to_double(read.most)) {
      refuse_facts("'sizes'");
    }
    if (read.size) ranges.push_back(read);
  }
  return ranges;
}

// Positions in the order of their values, smallest first; what is equal stays in order.
void sort_by(std::vector<std::size_t>& positions, const std::vector<double>& values) {
  std::stable_sort(positions.begin(), positions.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
}

// Settings as numbers, by their members.
constexpr std::size_t num_dtypes = 4;
constexpr std::size_t num_settings = 2 * num_dtypes * 2 * 2;

std::size_t number_of(const setting& of) {
  const auto op = static_cast<std::size_t>(of.op), dtype = static_cast<std::size_t>(of.dtype);
  const auto order = static_cast<std::size_t>(of.order), cache = static_cast<std::size_t>(of.cache);
  return ((op * num_dtypes + dtype) * 2 + order) * 2 + cache;
}

setting setting_numbered(std::size_t number) {
  return {static_cast<operation>(number / (4 * num_dtypes)), static_cast<value_type>(number / 4 % num_dtypes),
          static_cast<layout>(number / 2 % 2), static_cast<cache_state>(number % 2)};
}

std::string_view kernel_of(std::string_view candidate) { return candidate.substr(0, candidate.find('[')); }

}  // namespace

std::string setting::name() const {
  std::string joined = op == operation::spmm ? "spmm-" : "spmv-";
  joined += name_of(dtype);
  if (op == operation::spmm) joined += order == layout::row_major ? "-row" : "-column";
  return joined + (cache == cache_state::warm ? "-warm" : "-cold");
}

void ranking::complete() {
  const std::size_t count = scores.size();
  times_us.resize(count);
  totals_us.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    times_us[i] = least_us * std::exp(expand(scores[i]));
    totals_us[i] = calls == many_calls ? times_us[i] : times_us[i] + 1e3 / calls * preparation_ms[i];
  }
  fastest.resize(count);
  std::iota(fastest.begin(), fastest.end(), std::size_t{0});
  sort_by(fastest, scores);
  order = fastest;  // ties are broken by the scores, which can be below 0 where times cannot be below the least one
  if (calls != many_calls) sort_by(order, totals_us);
}

choice::choice(std::shared_ptr<const ranking> ranked, predicate among)
    : ranked_(std::move(ranked)), among_(std::move(among)), answers_(ranked_->scores.size(), -1) {}

bool choice::may_be_taken(std::size_t candidate) {
  signed char& answer = answers_[candidate];
  if (answer < 0) answer = !among_ || among_(name(candidate)) ? 1 : 0;
  return answer == 1;
}

std::optional<std::size_t> choice::first() {
  std::size_t passed = 0;
  return next(passed);
}

std::optional<std::size_t> choice::next(std::size_t& passed) {
  while (passed < ranked_->order.size()) {
    const std::size_t candidate = ranked_->order[passed++];
    if (may_be_taken(candidate)) return candidate;
  }
  return std::nullopt;
}

std::vector<std::size_t> choice::all() {
  std::vector<std::size_t> found;
  std::size_t passed = 0;
  while (const std::optional<std::size_t> candidate = next(passed)) found.push_back(*candidate);
  return found;
}

double choice::doubt() {
  const double loss = std::log1p(ranked_->expected_loss);
  if (loss == 0) return 0;
  double near = 0;
  std::optional<double> least;
  int passed = 0;
  for (const std::size_t candidate : ranked_->fastest) {
    if (!may_be_taken(candidate)) continue;
    if (!least) least = ranked_->scores[candidate];
    near += std::exp((*least - ranked_->scores[candidate]) / nearness);
    if (++passed == num_near) break;
  }
  return loss * std::max(near - 1, 0.0);  // without the first
}

bool choice::unsure() {
  if (ranked_->unsure) return true;
  // No candidate is asked for where even five as near as the first would not be enough.
  if (std::log1p(ranked_->expected_loss) * (num_near - 1) <= ranked_->most_doubt) return false;
  return doubt() > ranked_->most_doubt;
}

std::vector<std::size_t> choice::shortlist() {
  std::vector<std::size_t> found;
  for (const std::size_t candidate : ranked_->fastest) {
    if (!found.empty() && ranked_->scores[candidate] > ranked_->scores[found.front()] + ranked_->margin) break;
    if (may_be_taken(candidate)) found.push_back(candidate);
  }
  return found;
}

std::optional<std::size_t> choice::first_of_another_kernel() {
  std::size_t passed = 0;
  const std::optional<std::size_t> chosen = next(passed);
  if (!chosen) return std::nullopt;
  const std::string_view kernel = kernel_of(name(*chosen));
  // Whether a candidate may be taken is asked only of those of another kernel.
  for (; passed < ranked_->order.size(); ++passed) {
    const std::size_t candidate = ranked_->order[passed];
    if (kernel_of(name(candidate)) != kernel && may_be_taken(candidate)) return candidate;
  }
  return std::nullopt;
}

// What is known of one setting.
struct selector::known {
  std::string name;
  const trained_model* model;
  const trained_model* preparation;
  std::shared_ptr<const std::vector<std::string>> candidates;
  std::vector<model_input> inputs;               // of the model
  std::vector<preparation_input> terms;          // of the preparation
  std::vector<std::size_t> preparation_outputs;  // that belong to the candidates
  double margin;
  double unsure_loss = std::numeric_limits<double>::infinity();
  double most_doubt = std::numeric_limits<double>::infinity();
  double loss_spared;  // of a model that reads the features of SpMV only
  std::vector<size_range> ranges;
  bool needs_spmm;
  bool needs_column_vectors;
  bool needs_locality;
  // A network whose predictions are averaged with the model's, or null; its inputs and outputs by their positions.
  const trained_model* network = nullptr;
  double network_share = 0;
  std::vector<std::size_t> network_inputs;   // of the network's inputs, among the model's
  std::vector<std::size_t> network_outputs;  // of the model's outputs, among the network's

  known(const profile& from, const std::string& of, const json& facts)
      : name(of), model(&model_called(from, of)), preparation(&model_called(from, preparation_name(of))) {
    const std::vector<std::string>& outputs = model->outputs();
    if (outputs.size() < 3 || outputs[0] != reference_output || outputs[1] != loss_output) {
      refuse(name, "'" + name + "' is not a model that chooses");
    }
    candidates = std::make_shared<const std::vector<std::string>>(outputs.begin() + 2, outputs.end());
    for (const std::string& candidate : *candidates) {
      const std::optional<std::size_t> output = preparation->find_output(candidate);
      if (!output) refuse(name, "preparation of a candidate of '" + name + "' is not known");
      preparation_outputs.push_back(*output);
    }
    resolve_inputs();
    margin = number_of(facts, "margin");
    if (facts.find("unsure_doubt")) {
      most_doubt = number_of(facts, "unsure_doubt");
    } else {
      unsure_loss = number_of(facts, "unsure_loss");  // profiles of older versions
    }
    loss_spared = name.starts_with(quick_prefix) ? number_of(facts, "loss_spared") : 0;
    ranges = ranges_of(facts);
  }

  // `facts` is what the profile of networks says of this setting.
  void blend_with(const profile& networks, const json& facts) {
    network = &model_called(networks, name);
    network_share = number_of(facts, "share");
    if (!(network_share > 0 && network_share < 1)) refuse_facts("'share' is not between 0 and 1");
    margin = number_of(facts, "margin");
    most_doubt = number_of(facts, "unsure_doubt");
    const std::vector<std::string>& read = model->inputs();
    for (const std::string& input : network->inputs()) {
      const auto found = std::find(read.begin(), read.end(), input);
      if (found == read.end()) refuse(name, "the network of '" + name + "' reads '" + input + "', which trees do not");
      network_inputs.push_back(static_cast<std::size_t>(found - read.begin()));
    }
    for (const std::string& output : model->outputs()) {
      const std::optional<std::size_t> found = network->find_output(output);
      if (!found) refuse(name, "the network of '" + name + "' does not know '" + output + "'");
      network_outputs.push_back(*found);
    }
  }

  // Rows of inputs, and of the outputs of the model.
  void predict(std::span<const double> values, std::span<double> outputs) const {
    model->evaluated().predict(values, outputs);
    if (network == nullptr) return;
    const std::size_t width = inputs.size(), rows = values.size() / width;
    std::vector<double> taken;
    taken.reserve(rows * network_inputs.size());
    for (std::size_t row = 0; row < rows; ++row) {
      for (const std::size_t input : network_inputs) taken.push_back(values[row * width + input]);
    }
    const std::size_t count = network->outputs().size();
    std::vector<double> others(rows * count);
    network->evaluated().predict(taken, others);
    double* value = outputs.data();
    for (std::size_t row = 0; row < rows; ++row) {
      for (const std::size_t output : network_outputs) {
        *value += network_share * (others[row * count + output] - *value);
        ++value;
      }
    }
  }

  void resolve_inputs() {
    const auto check = [&](const auto& registered, const std::string& input) {
      const auto found =
          std::find_if(registered.begin(), registered.end(), [&](const auto& row) { return row.name == input; });
      if (found == registered.end()) refuse(name, "'" + name + "' reads '" + input + "', which is not an input");
      return *found;
    };
    for (const std::string& input : model->inputs()) inputs.push_back(check(model_inputs(), input));
    for (const std::string& term : preparation->inputs()) terms.push_back(check(preparation_inputs(), term));
    const auto needs = [&](feature_place::values set) {
      return std::any_of(inputs.begin(), inputs.end(), [&](const model_input& one) { return one.needs(set); });
    };
    needs_spmm = needs(&matrix_features::spmm);
    needs_column_vectors = needs(&matrix_features::column_vectors);
    needs_locality = needs(&matrix_features::locality);
  }

  // Whether it can be asked with these.
  bool has_pattern_features(const matrix_features& features) const {
    return (!needs_spmm || !features.spmm.empty()) && (!needs_column_vectors || !features.column_vectors.empty()) &&
           (!needs_locality || !features.locality.empty());
  }

  void check_features(const matrix_features& features) const {
    const auto check = [](const char* of, std::size_t given, std::size_t expected, bool needed) {
      if (given == expected || (!needed && given == 0)) return;
      throw error(
          error_kind::parameter, "features", -1,
          "the features of " + std::string(of) + " are " + std::to_string(given) + ", not " + std::to_string(expected));
    };
    check("spmm", features.spmm.size(), find_feature_set("spmm").names.size(), needs_spmm);
    check("spmv", features.spmv.size(), find_feature_set("spmv").names.size(), true);
    check("column vectors", features.column_vectors.size(), column_vector_feature_names().size(), needs_column_vectors);
    check("locality", features.locality.size(), overlap_feature_names().size(), needs_locality);
  }

  void write_inputs(const matrix_features& features, double k, double* values) const {
    for (const model_input& input : inputs) *values++ = input.value(features, k);
  }

  std::vector<double> prepare_ms(const size_features& sizes) const {
    std::vector<double> values(terms.size());
    std::transform(terms.begin(), terms.end(), values.begin(), [&](const preparation_input& term) {
      return term.formula(sizes.rows, sizes.cols, sizes.nnz, sizes.longest_row);
    });
    std::vector<double> all(preparation->outputs().size());
    preparation->evaluated().predict(values, all);
    std::vector<double> found(preparation_outputs.size());
    std::transform(preparation_outputs.begin(), preparation_outputs.end(), found.begin(),
                   [&](std::size_t output) { return all[output]; });
    return found;
  }

  // Names the sizes that are more than twice as large, or less than half as large, as any that was measured.
  std::string outside(const matrix_features& features, double k) const {
    std::string found;
    for (const auto& [size, least, most] : ranges) {
      const double value = size->value(features, k);
      if (least / 2 <= value && value <= 2 * most) continue;
      found += (found.empty() ? "" : ", ") + std::string(size->name) + " = " + grouped(value) +
               " (measured: " + grouped(least) + " to " + grouped(most) + ")";
    }
    return found;
  }
};

selector::selector(std::shared_ptr<const profile> from, std::shared_ptr<const profile> networks)
    : profile_(std::move(from)), networks_(std::move(networks)) {
  const json* const facts = profile_->metrics.find("selectors");
  const json::object* const settings = facts ? facts->as_object() : nullptr;
  if (!settings || settings->empty()) refuse("metrics", "the profile has no selectors");
  for (const auto& [name, of] : *settings) known_.emplace_back(*profile_, name, of);
  if (networks_ && (networks_->gpu != profile_->gpu || networks_->data_hash != profile_->data_hash))
    networks_ = nullptr;
  if (const json* const blend = networks_ ? networks_->metrics.find("blend") : nullptr) {
    if (!blend->as_object()) refuse_facts("'blend'");
    for (known& one : known_) {
      if (const json* const of = blend->find(one.name)) one.blend_with(*networks_, *of);
    }
  }
  const auto position = [&](const std::string& name) {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const known& one) { return one.name == name; });
    return found == known_.end() ? -1 : static_cast<int>(found - known_.begin());
  };
  for (std::size_t number = 0; number < num_settings; ++number) {
    const std::string name = setting_numbered(number).name();
    places_.push_back({position(name), position(std::string(quick_prefix) + name)});
  }
  const auto costs = profile_->models.find(features_model);
  if (costs == profile_->models.end()) return;
  std::vector<std::string> terms;
  for (const preparation_input& term : preparation_inputs()) terms.push_back(term.name);
  if (costs->second->inputs() != terms || costs->second->outputs() != std::vector<std::string>{"spmm"}) {
    refuse(features_model, "'features' does not say what computing the features of SpMM takes");
  }
  features_cost_ = costs->second.get();
}

selector::~selector() = default;
selector::selector(selector&&) noexcept = default;
selector& selector::operator=(selector&&) noexcept = default;

std::vector<std::string> selector::names() const {
  std::vector<std::string> found;
  for (const known& one : known_) {
    if (!one.name.starts_with(quick_prefix)) found.push_back(one.name);
  }
  return found;
}

const selector::places& selector::places_of(const setting& of) const { return places_[number_of(of)]; }

bool selector::knows(const setting& of) const { return places_of(of).best >= 0; }

const selector::known& selector::find(const setting& of) const {
  if (const int best = places_of(of).best; best >= 0) return known_[best];
  std::string all;
  for (const std::string& name : names()) all += (all.empty() ? "" : ", ") + name;
  throw error(error_kind::parameter, "op", -1, "the profile has no '" + of.name() + "', only " + all);
}

const selector::known& selector::find(const setting& of, const matrix_features& features) const {
  const known& best = find(of);
  if (best.has_pattern_features(features)) return best;
  const int quick = places_of(of).quick;
  return quick >= 0 ? known_[quick] : best;
}

bool selector::needs_spmm_features(const setting& of) const { return find(of).needs_spmm; }

bool selector::needs_column_vectors(const setting& of) const { return find(of).needs_column_vectors; }

bool selector::needs_locality(const setting& of) const { return find(of).needs_locality; }

bool selector::knows_quick(const setting& of) const {
  return find(of, matrix_features{}).has_pattern_features(matrix_features{});
}

double selector::loss_spared(const setting& of) const { return find(of, matrix_features{}).loss_spared; }

double selector::spmm_features_ms(const matrix_features& features) const {
  if (features_cost_ == nullptr) return std::numeric_limits<double>::infinity();
  const size_features sizes = sizes_of(features);
  std::vector<double> inputs;
  for (const preparation_input& term : preparation_inputs()) {
    inputs.push_back(term.formula(sizes.rows, sizes.cols, sizes.nnz, sizes.longest_row));
  }
  double milliseconds = 0;
  features_cost_->evaluated().predict(inputs, {&milliseconds, 1});
  return milliseconds;
}

ranking selector::rank(const matrix_features& features, std::int64_t k, const setting& of, double calls) const {
  if (!(calls > 0)) {
    char given[32];
    std::snprintf(given, sizeof given, "%g", calls);
    throw error(error_kind::parameter, "calls", -1, std::string("calls must be positive, got ") + given);
  }
  const known& model = find(of, features);
  model.check_features(features);
  const auto columns = static_cast<double>(k);
  std::vector<double> inputs(model.inputs.size());
  model.write_inputs(features, columns, inputs.data());
  std::vector<double> outputs(model.model->outputs().size());
  model.predict(inputs, outputs);
  const double reference = outputs[0];
  const double loss = outputs[1];
  const size_features sizes = sizes_of(features);
  ranking found;
  found.candidates = model.candidates;
  found.scores.assign(outputs.begin() + 2, outputs.end());
  found.preparation_ms = model.prepare_ms(sizes);
  found.calls = calls;
  found.least_us = std::exp(reference) *
                   roofline_us(sizes.rows, sizes.cols, sizes.nnz, columns, static_cast<double>(size_of(of.dtype)));
  found.margin = model.margin;
  found.share_of_network = model.network_share;
  found.expected_loss = std::expm1(std::max(loss, 0.0));
  found.outside = model.outside(features, columns);
  found.unsure = loss > model.unsure_loss || !found.outside.empty();
  found.most_doubt = model.most_doubt;
  found.complete();
  return found;
}

std::vector<std::string> selector::deciding_inputs(const matrix_features& features, std::int64_t k, const setting& of,
                                                   std::size_t chosen, std::size_t other, std::size_t count) const {
  const known& model = find(of, features);
  model.check_features(features);
  const std::size_t width = model.inputs.size();
  // The inputs as they are, then one after the other a step up, then a step down.
  std::vector<double> inputs((1 + 2 * width) * width);
  model.write_inputs(features, static_cast<double>(k), inputs.data());
  for (std::size_t row = 1; row <= 2 * width; ++row) {
    double* const changed = inputs.data() + row * width;
    std::copy_n(inputs.data(), width, changed);
    changed[(row - 1) % width] += row <= width ? 1 : -1;
  }
  const std::size_t num_outputs = model.model->outputs().size();
  std::vector<double> outputs((1 + 2 * width) * num_outputs);
  model.predict(inputs, outputs);
  const auto gain = [&](std::size_t row) {
    const double* const scores = outputs.data() + row * num_outputs + 2;
    return scores[other] - scores[chosen];
  };
  std::vector<double> change(width);
  for (std::size_t i = 0; i < width; ++i) {
    change[i] = std::max(std::abs(gain(1 + i) - gain(0)), std::abs(gain(1 + width + i) - gain(0)));
  }
  std::vector<std::size_t> order(width);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return change[a] > change[b]; });
  std::vector<std::string> names;
  for (const std::size_t i : order) {
    if (names.size() < count && change[i] > 0) names.push_back(model.model->inputs()[i]);
  }
  return names;
}

}  // namespace warploom
