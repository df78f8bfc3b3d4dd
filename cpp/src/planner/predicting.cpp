#include "planner/predicting.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <new>
#include <set>
#include <shared_mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "device/cuda_function.hpp"
#include "features/column_vectors.hpp"
#include "features/hidden_overlap.hpp"
#include "planner/comparing.hpp"
#include "warploom/error.hpp"
#include "warploom/features.hpp"
#include "warploom/locality.hpp"
#include "warploom/permutation.hpp"
#include "warploom/vector_features.hpp"

namespace warploom {
namespace {

constexpr std::size_t max_of_vendor = 3;
constexpr std::size_t max_compared_of_vendor = 2;

// Candidates of one format that are tried one after the other where memory does not suffice: the others take as much.
constexpr int max_tries = 3;

bool lacks_memory(const error& failure) { return failure.kind() == error_kind::out_of_memory; }

// Of a name that a profile has. Each is parsed once, since plans ask for several while the caches of the CPU are cold.
const candidate& ranked_candidate(const std::string& name) {
  static std::shared_mutex reading;
  static std::unordered_map<std::string, candidate> known;
  {
    const std::shared_lock<std::shared_mutex> lock(reading);
    if (const auto found = known.find(name); found != known.end()) return found->second;
  }
  candidate parsed = parse_candidate(name);
  const std::lock_guard<std::shared_mutex> lock(reading);
  return known.try_emplace(name, std::move(parsed)).first->second;
}

// What a model is asked for. Where the profile has none for a value type, that of another one stands in.
setting setting_of(const problem& given, const selector& chooser) {
  setting of{given.op, given.dtype(), given.order, given.cache};
  if (of.dtype == value_type::bfloat16 && !chooser.knows(of)) of.dtype = value_type::float16;
  if (given.op == operation::spmm && !chooser.knows(of)) of.dtype = value_type::float32;
  return of;
}

std::string stands_in(const problem& given, const selector& chooser) {
  const setting of = setting_of(given, chooser);
  if (of.dtype == given.dtype()) return "";
  return std::string(name_of(given.dtype())) + ": predicted from " + name_of(of.dtype);
}

// What `tried` returns, or `otherwise` where the GPU lacks memory.
template <class Tried, class Otherwise>
auto unless_memory_lacks(const Tried& tried, const Otherwise& otherwise) -> decltype(tried()) {
  try {
    return tried();
  } catch (const error& failure) {
    if (!lacks_memory(failure)) throw;
  }
  return otherwise();
}

// Features of a matrix: a GPU that has it starts with them, the host computes them when they are asked for, also where
// the GPU lacks memory for them. `given` must stay.
pending_features start(const problem& given, const std::function<pending_features(const device_csr&)>& on_gpu,
                       const pending_features& on_host) {
  if (!given.on_gpu()) return on_host;
  const device_guard guard(given.device);
  const auto started = [&]() -> pending_features {
    return [&given, on_host, pending = on_gpu(*given.resident())] {
      const device_guard guard(given.device);
      return unless_memory_lacks(pending, on_host);
    };
  };
  return unless_memory_lacks(started, [&] { return on_host; });
}

pending_features start_set(const char* name, const problem& given) {
  const feature_set& set = find_feature_set(name);
  return start(
      given,
      [&set](const device_csr& matrix) { return set.start_cuda(arrays_of(matrix), geometry{}, stream_of(matrix)); },
      [&set, &given] {
        std::vector<double> values(set.names.size());
        set.compute(given.matrix(), geometry{}, values.data());
        return values;
      });
}

pending_features start_column_vectors(const problem& given) {
  return start(given, WARPLOOM_CUDA(start_cuda_column_vector_features),
               [&given] { return column_vector_features(given.matrix()); });
}

std::function<double()> start_overlap(const problem& given) {
  if (given.nnz() < fewest_nonzeros_of_overlap) return [] { return not_measured; };
  if (!given.on_gpu()) return [&given] { return hidden_overlap(given.matrix()); };
  const device_guard guard(given.device);
  return WARPLOOM_CUDA(start_cuda_hidden_overlap)(*given.resident(), fewest_nonzeros_of_overlap);
}

using clock = std::chrono::steady_clock;

double milliseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

struct ranked_features {
  matrix_features features;
  ranking ranked;
  std::vector<preparation_step> steps;
};

// What a plan takes longer for features than their kernels do: launching these, waiting for them and ranking again,
// while the caches of the CPU hold nothing of either. It is 50 to 160 microseconds, by the host. With 50 to 150 here,
// on the matrices of 10^6 nonzeros and more that were measured, 1,000 SpMV with their planning take least.
constexpr double around_features_ms = 0.1;

// Ranks with zeros in place of the features that a GPU is still computing: the models are in the caches of the CPU when
// these are known.
void read_models(const selector& chooser, const std::vector<double>& spmv, std::int64_t k, const setting& of,
                 double calls) {
  const auto zeros = [](std::size_t count) { return std::vector<double>(count, 0.0); };
  chooser.rank({spmv, zeros(find_feature_set("spmm").names.size()), zeros(column_vector_feature_names().size()),
                zeros(overlap_feature_names().size())},
               k, of, calls);
}

// Features and ranking. Where preparation counts, features that take longer than they are expected to save in all
// products are not computed.
ranked_features rank(const problem& given, const selector& chooser, double calls) {
  const setting of = setting_of(given, chooser);
  ranked_features found;
  double features_ms = 0, ranking_ms = 0;
  auto start = clock::now();
  const auto add_time_to = [&](double& sum) {
    sum += milliseconds_since(start);
    start = clock::now();
  };
  found.features.spmv = given.on_gpu() ? spmv_features_of(*given.resident()) : start_set("spmv", given)();
  add_time_to(features_ms);
  const bool needs_spmm = chooser.needs_spmm_features(of), needs_vectors = chooser.needs_column_vectors(of);
  const bool needs_locality = chooser.needs_locality(of);
  bool enough = !needs_spmm && !needs_vectors && !needs_locality;
  if (!enough && std::isfinite(calls) && chooser.knows_quick(of)) {
    found.ranked = chooser.rank(found.features, given.k, of, calls);
    const double time_us = found.ranked.times_us[found.ranked.order.front()];
    const double saved_us = chooser.loss_spared(of) * found.ranked.expected_loss * time_us * calls;
    // The features of column vectors count as much as those of SpMM, what is read of locality a quarter.
    const bool measures_locality = needs_locality && given.nnz() >= fewest_nonzeros_of_overlap;
    const double computed = int{needs_spmm} + int{needs_vectors} + 0.25 * int{measures_locality};
    enough = saved_us < 1e3 * (computed * chooser.spmm_features_ms(found.features) + around_features_ms);
    add_time_to(ranking_ms);
  }
  if (!enough) {
    const std::function<double()> overlap = needs_locality ? start_overlap(given) : nullptr;
    const pending_features spmm = needs_spmm ? start_set("spmm", given) : nullptr;
    const pending_features vectors = needs_vectors ? start_column_vectors(given) : nullptr;
    if (given.on_gpu()) read_models(chooser, found.features.spmv, given.k, of, calls);
    if (needs_spmm) found.features.spmm = spmm();
    if (needs_vectors) found.features.column_vectors = vectors();
    if (needs_locality) found.features.locality = {overlap()};
    add_time_to(features_ms);
  }
  if (found.ranked.scores.empty() || !enough) found.ranked = chooser.rank(found.features, given.k, of, calls);
  add_time_to(ranking_ms);
  found.steps = {{"features", features_ms}, {"ranking", ranking_ms}};
  return found;
}

// One prediction: which candidates may be taken, in the order in which they are worth it.
class prediction {
 public:
  prediction(const problem& given, const selector& chooser, const plan_options& options, std::int64_t permutation_rows,
             bool on_gpu, bool thorough)
      : thorough_(thorough),
        problem_(given.without_resident()),
        options_(options),
        permutation_rows_(permutation_rows),
        on_gpu_(on_gpu),
        found_(rank(given, chooser, options.calls)),
        choice_(std::make_shared<const ranking>(found_.ranked),
                [this](const std::string& name) { return may_be_taken(name); }) {}
  prediction(const prediction&) = delete;  // the choice asks this one
  prediction& operator=(const prediction&) = delete;

  choice& chosen() { return choice_; }
  const ranking& ranked() const { return choice_.ranked(); }
  const matrix_features& features() const { return found_.features; }
  const std::vector<preparation_step>& steps() const { return found_.steps; }
  // Why a candidate that could be taken was not prepared after all, and how many of them did not fit into memory.
  std::map<std::string, std::string> refusals;
  std::int64_t lacked_memory = 0;
  std::set<std::string> wrong;  // whose products were
  bool among_patterns(const std::string& name) const { return matches(name, options_.patterns); }
  // What preparation takes is predicted of orders that GPUs compute.
  given_up orders_given_up() const {
    return std::isfinite(options_.calls) && !options_.patterns ? given_up::refused : given_up::computed_by_host;
  }
  bool may_be_taken(const std::string& name) const {
    if (!among_patterns(name)) return false;
    const candidate& parsed = ranked_candidate(name);
    if (!on_gpu_ && !parsed.kernel->runs_on_cpu()) return false;
    if (!is_precise_enough(*parsed.kernel, problem_.precision)) return false;
    if (!options_.patterns && problem_.num_rows() > permutation_rows_ &&
        find_permutation(parsed.permutation).searches) {
      return false;
    }
    product_request request;
    request.k = problem_.k;
    request.order = problem_.order;
    request.parameters = parsed.parameters;
    if (is_redundant(parsed, problem_.summary(), problem_.k, problem_.order)) return false;
    return thorough_ ? reason_against(*parsed.kernel, problem_.matrix(), request).empty()
                     : reason_against(*parsed.kernel, problem_.summary(), request).empty();
  }

  // Throws error_kind::parameter if none may be taken.
  std::string first() {
    if (const auto best = choice_.first()) return choice_.name(*best);
    std::string patterns;
    for (const std::string& pattern : options_.patterns.value_or(std::vector<std::string>{})) {
      patterns += (patterns.empty() ? " matches '" : "', '") + pattern;
    }
    throw error(error_kind::parameter, "candidates", -1,
                "no candidate that the profile knows" + patterns + (patterns.empty() ? " can" : "' and can") +
                    " run this problem; select='measure' considers all");
  }

 private:
  bool thorough_;  // whether patterns are looked at: else preparing refuses what they do not allow
  problem problem_;
  plan_options options_;
  std::int64_t permutation_rows_;
  bool on_gpu_;
  ranked_features found_;
  choice choice_;
};

// Against what is taken instead.
double break_even(const ranking& ranked, std::size_t i, const std::optional<std::size_t>& baseline) {
  if (!baseline || *baseline == i) return candidate_row::unknown;
  const double saved = ranked.times_us[*baseline] - ranked.times_us[i];
  if (!(saved > 0)) return std::numeric_limits<double>::infinity();
  return std::max(0.0, std::ceil(1e3 * (ranked.preparation_ms[i] - ranked.preparation_ms[*baseline]) / saved));
}

// The table of a prediction, of which some candidates were measured too.
explanation explain(const problem& given, prediction& predicted, const prediction_source& from,
                    const std::vector<candidate_row>& measured, const std::string& chosen) {
  explanation found;
  found.based_on = explanation::basis::predicted;
  found.chosen = chosen;
  found.baseline = make_candidate(baseline_kernel(given.op, given.order)).name();
  found.gpu = from.gpu;
  found.profile_note = from.note;
  found.stands_in = stands_in(given, from.chooser);
  const ranking& ranked = predicted.ranked();
  found.calls = ranked.calls;
  found.share_of_network = ranked.share_of_network;
  found.expected_loss = ranked.expected_loss;
  found.outside = ranked.outside;
  found.lacked_memory = predicted.lacked_memory;
  choice& choices = predicted.chosen();
  found.unsure = choices.unsure();
  const std::vector<std::size_t> all = choices.all();
  std::optional<std::size_t> baseline, vendor;
  for (const std::size_t i : all) {
    if (choices.name(i) == found.baseline) baseline = i;
    const bool of_vendor = ranked_candidate(choices.name(i)).kernel->vendor;
    if (of_vendor && (!vendor || ranked.times_us[i] < ranked.times_us[*vendor])) vendor = i;
  }
  if (vendor) found.vendor = choices.name(*vendor);
  for (const candidate_row& row : measured) {
    const bool listed = std::any_of(all.begin(), all.end(), [&](std::size_t i) { return choices.name(i) == row.name; });
    if (!listed) found.rows.push_back(row);
  }
  for (const std::size_t i : all) {
    const auto known = std::find_if(measured.begin(), measured.end(),
                                    [&](const candidate_row& row) { return row.name == choices.name(i); });
    candidate_row row;
    if (known != measured.end()) row = *known;
    row.name = choices.name(i);
    if (known == measured.end()) row.preparation_ms = ranked.preparation_ms[i];
    row.predicted_us = ranked.times_us[i];
    row.break_even = break_even(ranked, i, baseline);
    row.break_even_vendor = break_even(ranked, i, vendor);
    if (const auto refused = predicted.refusals.find(row.name); refused != predicted.refusals.end()) {
      row.note = refused->second;
    }
    found.rows.push_back(std::move(row));
  }
  finish_rows(found, &candidate_row::predicted_us);
  const auto first = choices.first();
  const auto other = choices.first_of_another_kernel();
  if (first && other) {
    found.deciding_inputs =
        from.chooser.deciding_inputs(predicted.features(), given.k, setting_of(given, from.chooser), *first, *other);
  }
  return found;
}

// Measuring costs some hundred products and the preparation of each candidate.
bool is_worth_measuring(double calls, double time_us) {
  constexpr auto measured = static_cast<double>(max_measured);
  return std::isinf(calls) || calls * time_us > 2e3 * measured + 300 * measured * time_us;
}

double operand_bytes(const problem& given) {
  return static_cast<double>(given.num_rows() + given.num_cols()) * static_cast<double>(given.k) *
         static_cast<double>(size_of(given.dtype()));
}

// What comparing takes, in microseconds.
double comparing_us(const problem& given, std::size_t candidates, double time_us) {
  constexpr double preparation_us = 600;          // of one
  constexpr double allocated_bytes_per_us = 8e3;  // of operands, on an H200 under a hypervisor
  return static_cast<double>(candidates) * (products_to_compare * time_us + preparation_us) +
         operand_bytes(given) / allocated_bytes_per_us;
}

// How many of so many candidates are compared, the choice among them, although measuring the short list is not worth
// it: that takes at most a twentieth of what the products take, and no more memory than the matrix. Only where the
// models have seen no such sizes, and may be far off.
std::size_t num_worth_comparing(const problem& given, std::size_t candidates, double calls, double time_us) {
  const auto itemsize = static_cast<double>(size_of(given.dtype()));
  if (operand_bytes(given) > static_cast<double>(given.nnz()) * (4 + itemsize)) return 0;
  while (candidates > 1 && comparing_us(given, candidates, time_us) >= 0.05 * calls * time_us) --candidates;
  return candidates > 1 ? candidates : 0;
}

// ---- Candidates that no model knows: those of less than full precision, kernels for value types without a model of
// their own that do not work on the type whose model stands in, and promising kernels that models have not seen

// Promising ones for this matrix that are not ranked.
std::set<const product_kernel*> unseen_kernels(const problem& given, prediction& predicted) {
  std::set<const product_kernel*> unseen;
  for (const product_kernel& kernel : kernels(given.op)) {
    if (kernel.promising && kernel.promising(given.summary())) unseen.insert(&kernel);
  }
  if (unseen.empty()) return unseen;
  choice& choices = predicted.chosen();
  for (const std::size_t i : choices.all()) unseen.erase(ranked_candidate(choices.name(i)).kernel);
  return unseen;
}

// Those to measure, in the caller's row order first.
std::vector<candidate> unpredicted_candidates(const problem& given, const selector& chooser, prediction& made,
                                              const name_patterns& patterns) {
  const value_type predicted = setting_of(given, chooser).dtype;
  const bool has_own_model = predicted == given.dtype();
  const std::set<const product_kernel*> unseen = unseen_kernels(given, made);
  const auto is_known = [&](const product_kernel& kernel) {
    return kernel.precision == product_precision::full && (has_own_model || kernel.works_on(predicted)) &&
           !unseen.contains(&kernel);
  };
  // Listing candidates takes longer than some plans. Patterns may name one that is not among them otherwise.
  const bool knows_all = std::ranges::all_of(kernels(given.op), [&](const product_kernel& kernel) {
    return !kernel.works_on(given.dtype()) || !is_precise_enough(kernel, given.precision) || is_known(kernel);
  });
  if (knows_all && !patterns) return {};
  std::vector<candidate> found = candidates_to_measure(given, patterns);
  std::erase_if(found, [&](const candidate& c) { return is_known(*c.kernel) || (!patterns && c.is_permuted()); });
  std::stable_partition(found.begin(), found.end(), [](const candidate& c) { return !c.is_permuted(); });
  if (found.size() > max_measured) found.resize(max_measured);
  return found;
}

// Those that are compared with what is predicted although measuring the short list is not worth it. Whoever asks for
// less precision expects it to save more than a quarter; else only the first, for a tenth.
std::vector<candidate> worth_comparing(const problem& given, std::vector<candidate> unpredicted, double calls,
                                       double time_us) {
  const bool asked_for = given.precision != product_precision::full;
  if (!asked_for && unpredicted.size() > 1) unpredicted.resize(1);
  const double share = asked_for ? 0.25 : 0.1;
  if (comparing_us(given, 1 + unpredicted.size(), time_us) < share * calls * time_us) return unpredicted;
  return {};
}

// "no model knows column-vectors/tensor_core, ..."
std::string note_about(const std::vector<candidate>& unpredicted) {
  std::string kernels;
  std::set<std::string> named;
  for (const candidate& c : unpredicted) {
    if (named.insert(c.kernel->label()).second) kernels += (kernels.empty() ? "" : ", ") + c.kernel->label();
  }
  return "no model knows " + kernels + (named.size() == 1 ? ", and it was" : ", and they were") +
         " not measured for so few calls: select='measure' does";
}

// Where models have seen no such sizes: what wins on large matrices, whatever they say of it.
std::vector<std::string> names_for_large(const problem& given, const prediction& predicted) {
  constexpr std::int64_t fewest_nonzeros = 1'000'000;
  std::vector<std::string> names;
  if (predicted.ranked().outside.empty() || given.nnz() < fewest_nonzeros) return names;
  for (const product_kernel& kernel : kernels(given.op)) {
    if (!kernel.for_large || !kernel.works_on(given.order) || !kernel.works_on(given.dtype())) continue;
    std::string name = make_candidate(kernel).name();
    if (predicted.may_be_taken(name)) names.push_back(std::move(name));
  }
  return names;
}

// The first of the vendor's.
std::vector<std::string> names_of_vendor(choice& choices, std::size_t count) {
  std::vector<std::string> names;
  std::size_t passed = 0;
  while (names.size() < count) {
    const auto next = choices.next(passed);
    if (!next) break;
    if (ranked_candidate(choices.name(*next)).kernel->vendor) names.push_back(choices.name(*next));
  }
  return names;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// What is compared where models have seen no such sizes, if that is worth it: the first of a prediction and of the
// vendor's, what wins on large matrices, and the vendor's next.
std::vector<candidate> compared_beyond(const problem& given, prediction& predicted, double calls, double time_us) {
  if (predicted.ranked().outside.empty()) return {};
  std::vector<std::string> names{predicted.first()};
  const std::vector<std::string> of_vendor = names_of_vendor(predicted.chosen(), max_compared_of_vendor);
  if (!of_vendor.empty()) add_once(names, of_vendor.front());
  for (const std::string& name : names_for_large(given, predicted)) add_once(names, name);
  for (const std::string& name : of_vendor) add_once(names, name);
  names.resize(num_worth_comparing(given, names.size(), calls, time_us));
  std::vector<candidate> found;
  for (const std::string& name : names) found.push_back(ranked_candidate(name));
  return found;
}

std::vector<std::string> names_to_measure(const problem& given, prediction& predicted, bool unsure, bool verify) {
  choice& choices = predicted.chosen();
  std::vector<std::string> names{predicted.first()};
  if (unsure) {
    const std::vector<std::size_t> shortlist = choices.shortlist();
    for (std::size_t i = 0; i < std::min(shortlist.size(), max_measured); ++i) {
      add_once(names, choices.name(shortlist[i]));
    }
  }
  if (verify || !predicted.ranked().outside.empty()) {
    for (const std::string& name : names_of_vendor(choices, max_of_vendor)) add_once(names, name);
  }
  for (const std::string& name : names_for_large(given, predicted)) add_once(names, name);
  return names;
}

// Rows of the table, and the best plan: null if none could be measured.
std::pair<std::vector<candidate_row>, std::unique_ptr<plan>> measure(const problem& given, prediction& predicted,
                                                                     const std::vector<std::string>& names,
                                                                     const plan_options& options,
                                                                     const surroundings& in) {
  measuring_options limits;
  limits.calls = options.calls;
  limits.repeats = 20;
  limits.budget_ms = 10;
  limits.timer = in.timer;
  measuring session(given, limits);
  std::vector<candidate> listed;
  for (const std::string& name : names) listed.push_back(parse_candidate(name));
  // Each permutation is computed once.
  std::stable_sort(listed.begin(), listed.end(),
                   [](const candidate& a, const candidate& b) { return a.permutation < b.permutation; });
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (options.progress) options.progress(i, listed.size(), listed[i].name());
    session.measure(listed[i]);
  }
  std::vector<candidate_row> rows;
  for (const candidate_row& row : session.rows()) {
    if (!std::isnan(row.median_us)) {
      rows.push_back(row);
    } else {
      predicted.refusals[row.name] = row.note;
      if (row.note.starts_with("wrong result")) predicted.wrong.insert(row.name);
    }
  }
  predicted.lacked_memory = session.lacked_memory();
  return {std::move(rows), session.take_best()};
}

// Candidates of a prediction in the order in which they are worth preparing. Once a row order has been computed in
// vain, since its candidate could not be prepared, others take it for nothing, and what is left to do counts.
class worth_preparing {
 public:
  worth_preparing(const problem& given, choice& choices, given_up then)
      : given_(given), choices_(choices), then_(then) {}

  std::optional<std::size_t> next() {
    if (orders_.empty()) return choices_.next(passed_);
    if (orders_.size() > orders_counted_) {
      sorted_ = choices_.all();
      std::stable_sort(sorted_.begin(), sorted_.end(),
                       [&](std::size_t a, std::size_t b) { return left_us(a) < left_us(b); });
      orders_counted_ = orders_.size();
      passed_ = 0;
    }
    return passed_ < sorted_.size() ? std::optional(sorted_[passed_++]) : std::nullopt;
  }

  std::unique_ptr<plan> prepare(const candidate& tried) {
    if (!tried.is_permuted()) return prepare_candidate(given_, tried);
    return prepare_candidate(given_, tried, order(tried.permutation));
  }

 private:
  const timed_permutation& order(const std::string& name) {
    if (const auto known = orders_.find(name); known != orders_.end()) return known->second;
    if (const auto known = given_up_.find(name); known != given_up_.end()) throw known->second;
    try {
      return orders_.emplace(name, permute(given_, name, then_)).first->second;
    } catch (const error& failure) {
      given_up_.emplace(name, failure);
      throw;
    }
  }

  double left_us(std::size_t i) const {
    const ranking& ranked = choices_.ranked();
    const auto known = orders_.find(ranked_candidate(choices_.name(i)).permutation);
    const double spent_ms = known == orders_.end() ? 0 : known->second.milliseconds;
    return ranked.times_us[i] + 1e3 / ranked.calls * std::max(ranked.preparation_ms[i] - spent_ms, 0.0);
  }

  const problem& given_;
  choice& choices_;
  given_up then_;
  std::map<std::string, timed_permutation> orders_;
  std::map<std::string, error> given_up_;
  std::size_t passed_ = 0;
  std::vector<std::size_t> sorted_;  // by what is left to do
  std::size_t orders_counted_ = 0;
};

// The best that fits into memory: of what is predicted, then of what no model knows, and then, unless the caller listed
// candidates, the baseline, which takes no format of its own.
std::unique_ptr<plan> prepare_first(const problem& given, prediction& predicted,
                                    const std::vector<candidate>& unpredicted) {
  predicted.lacked_memory = 0;
  std::map<std::string, int> too_large;  // candidates of a format
  std::string reasons;
  int listed_reasons = 0;
  std::set<std::string> done = predicted.wrong;
  worth_preparing candidates(given, predicted.chosen(), predicted.orders_given_up());
  const auto prepare = [&](const candidate& tried) -> std::unique_ptr<plan> {
    if (!done.insert(tried.name()).second) return nullptr;
    std::string reason = "out of memory";
    bool lacked_memory = true;
    try {
      return candidates.prepare(tried);
    } catch (const error& failure) {
      const error_kind kind = failure.kind();
      lacked_memory = lacks_memory(failure);
      if (!lacked_memory && kind != error_kind::parameter && kind != error_kind::index_overflow) throw;
      reason = failure.what();
    } catch (const std::bad_alloc&) {  // the next one may take less
    }
    if (lacked_memory) {
      ++too_large[tried.kernel->format];
      ++predicted.lacked_memory;
    }
    if (++listed_reasons <= 3) reasons += (reasons.empty() ? "" : "; ") + tried.name() + ": " + reason;
    predicted.refusals[tried.name()] = std::move(reason);
    return nullptr;
  };
  while (const auto next = candidates.next()) {
    const candidate& tried = ranked_candidate(predicted.chosen().name(*next));
    if (const auto known = too_large.find(tried.kernel->format);
        known != too_large.end() && known->second >= max_tries) {
      continue;
    }
    if (std::unique_ptr<plan> prepared = prepare(tried)) return prepared;
  }
  for (const candidate& tried : unpredicted) {
    if (std::unique_ptr<plan> prepared = prepare(tried)) return prepared;
  }
  const candidate plain = make_candidate(baseline_kernel(given.op, given.order));
  if (predicted.among_patterns(plain.name())) {
    if (std::unique_ptr<plan> prepared = prepare(plain)) return prepared;
  }
  if (predicted.lacked_memory > 0) {
    throw error(error_kind::out_of_memory, "candidates", -1, "no candidate fits into memory: " + reasons);
  }
  throw error(error_kind::parameter, "candidates", -1, "no candidate can run this problem: " + reasons);
}

}  // namespace

std::unique_ptr<plan> plan_by_prediction(const problem& given, std::shared_ptr<const prediction_source> from,
                                         const plan_options& options, const surroundings& in) {
  auto start = clock::now();
  if (given.on_gpu()) given.resident();
  std::vector<preparation_step> steps{{"upload", milliseconds_since(start)}};
  auto predicted =
      std::make_shared<prediction>(given, from->chooser, options, in.permutation_rows, given.on_gpu(), false);
  const std::vector<candidate> unpredicted = unpredicted_candidates(given, from->chooser, *predicted, options.patterns);
  const bool only_unpredicted = !predicted->chosen().first() && !unpredicted.empty();
  if (!only_unpredicted) predicted->first();  // there is one
  const ranking& ranked = predicted->ranked();
  const bool unsure = predicted->chosen().unsure() || !stands_in(given, from->chooser).empty() || !from->holds_for_gpu;
  const double time_us = only_unpredicted ? 0 : ranked.times_us[*predicted->chosen().first()];
  steps.insert(steps.end(), predicted->steps().begin(), predicted->steps().end());
  start = clock::now();
  std::vector<candidate_row> measured;
  std::unique_ptr<plan> best;
  std::string not_measured;
  const bool all_of_list =
      only_unpredicted || ((unsure || !unpredicted.empty()) && is_worth_measuring(options.calls, time_us));
  bool left_out = false;
  if (options.verify || all_of_list) {
    std::vector<std::string> names;
    if (!only_unpredicted) names = names_to_measure(given, *predicted, all_of_list, options.verify);
    for (const candidate& c : unpredicted) names.push_back(c.name());
    try {
      std::tie(measured, best) = measure(given, *predicted, names, options, in);
    } catch (const error& failure) {
      if (!lacks_memory(failure)) throw;
      not_measured = failure.what();  // operands do not fit
    } catch (const std::bad_alloc&) {
      not_measured = "out of memory";
    }
    const bool lacked_memory = !not_measured.empty() || predicted->lacked_memory > 0;
    if (!best && only_unpredicted && !lacked_memory) predicted->first();  // which throws
  } else if (std::vector<candidate> compared_with = worth_comparing(given, unpredicted, options.calls, time_us);
             !compared_with.empty() && (given.on_gpu() || in.timer)) {
    compared_with.insert(compared_with.begin(), ranked_candidate(predicted->first()));
    comparison compared = compare(given, compared_with, options.calls, in.timer);
    measured = std::move(compared.rows);
    best = std::move(compared.best);
    not_measured = std::move(compared.lacked_memory);
  } else if (const std::vector<candidate> known = compared_beyond(given, *predicted, options.calls, time_us);
             !known.empty() && (given.on_gpu() || in.timer)) {
    comparison compared = compare(given, known, options.calls, in.timer);
    measured = std::move(compared.rows);
    best = std::move(compared.best);
    not_measured = std::move(compared.lacked_memory);
    left_out = !unpredicted.empty();
  } else {
    left_out = !unpredicted.empty();
  }
  steps.push_back({"measuring", milliseconds_since(start)});
  if (!best) best = prepare_first(given, *predicted, unpredicted);
  best->chosen_in(std::move(steps));
  best->explain_by([given = given.without_resident(), predicted, from, rows = measured, chosen = best->chosen().name(),
                    not_measured, not_predicted = left_out ? note_about(unpredicted) : ""] {
    explanation found = explain(given, *predicted, *from, rows, chosen);
    found.not_measured = not_measured;
    found.not_predicted = not_predicted;
    return found;
  });
  return best;
}

std::unique_ptr<plan> plan_without_measuring(const problem& given, std::shared_ptr<const prediction_source> from,
                                             const plan_options& options, const std::string& reason,
                                             const surroundings& in) {
  auto predicted =
      std::make_shared<prediction>(given, from->chooser, options, in.permutation_rows, given.on_gpu(), false);
  std::vector<candidate> others;  // of a list, whatever the models know
  if (options.patterns) others = candidates_to_measure(given, options.patterns);
  std::unique_ptr<plan> best = prepare_first(given, *predicted, others);
  best->chosen_in(predicted->steps());
  best->explain_by([given = given.without_resident(), predicted, from, reason, chosen = best->chosen().name()] {
    explanation found = explain(given, *predicted, *from, {}, chosen);
    found.not_measured = reason;
    return found;
  });
  return best;
}

explanation explain_by_prediction(const problem& given, const prediction_source& from, const plan_options& options,
                                  const surroundings& in) {
  prediction predicted(given, from.chooser, options, in.permutation_rows, true, true);
  const std::string chosen = predicted.first();
  return explain(given, predicted, from, {}, chosen);
}

}  // namespace warploom
