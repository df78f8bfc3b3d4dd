#include "planner/measuring.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "warploom/error.hpp"

namespace warploom {
namespace {

// What becomes a note in the table. Everything else is a mistake of ours and goes to the caller.
bool is_of_the_candidate(error_kind kind) {
  return kind == error_kind::device || kind == error_kind::index_overflow || kind == error_kind::out_of_memory ||
         kind == error_kind::parameter;
}

bool searches(const candidate& permuted) { return find_permutation(permuted.permutation).searches; }

// The candidate that a pattern without wildcards names, even if the list lacks it.
void add_named(const problem& given, const std::string& pattern, std::vector<candidate>& found) {
  if (pattern.find_first_of("*?") != std::string::npos) return;
  const bool listed = std::any_of(found.begin(), found.end(), [&](const candidate& c) { return c.name() == pattern; });
  if (listed) return;
  try {
    candidate named = parse_candidate(pattern);
    const bool runs = named.kernel->works_on(given.order) && (given.on_gpu() || named.kernel->runs_on_cpu());
    const bool known = std::find(found.begin(), found.end(), named) != found.end();
    if (runs && !known && named.kernel->op == given.op) found.push_back(std::move(named));
  } catch (const error&) {
    // A pattern need not name anything.
  }
}

}  // namespace

std::vector<candidate> candidates_to_measure(const problem& given, const name_patterns& patterns) {
  std::vector<candidate> found;
  for (candidate& c : enumerate_candidates(given.op, {given.order, given.on_gpu(), given.dtype()})) {
    const bool wanted =
        patterns ? matches(c.name(), patterns) : !is_redundant(c, given.summary(), given.k, given.order);
    if (wanted) found.push_back(std::move(c));
  }
  if (patterns) {
    for (const std::string& pattern : *patterns) add_named(given, pattern, found);
  }
  return found;
}

measuring::measuring(const problem& given, const measuring_options& options)
    : problem_(given), options_(options), trial_(given) {}

void measuring::measure_all(const name_patterns& patterns, const progress_function& progress) {
  std::vector<candidate> listed = candidates_to_measure(problem_, patterns);
  if (listed.empty()) {
    throw error(error_kind::parameter, "candidates", -1,
                std::string("no candidate for ") + name_of(problem_.order) + "-major operands matches the patterns");
  }
  // One permutation after the other, in the order of their registry: each is computed once for all kernels.
  const auto position = [](const candidate& c) {
    const auto known = permutation_algorithms();
    return std::find_if(known.begin(), known.end(), [&](const auto& p) { return c.permutation == p.name; }) -
           known.begin();
  };
  std::stable_sort(listed.begin(), listed.end(), [&](const candidate& a, const candidate& b) {
    return (a.is_permuted() ? 1 + position(a) : 0) < (b.is_permuted() ? 1 + position(b) : 0);
  });
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (progress) progress(static_cast<std::int64_t>(i), static_cast<std::int64_t>(listed.size()), listed[i].name());
    if (listed[i].is_permuted()) {
      measure_permuted(listed[i], patterns);
    } else {
      measure(listed[i]);
    }
  }
  if (best_) return;
  std::string reasons;
  for (std::size_t i = 0; i < std::min<std::size_t>(rows_.size(), 5); ++i) {
    reasons += (i == 0 ? "" : "; ") + rows_[i].name + ": " + rows_[i].note;
  }
  throw error(error_kind::parameter, "candidates", -1, "no candidate can run this problem: " + reasons);
}

void measuring::measure_permuted(const candidate& listed, const name_patterns& patterns) {
  const std::int64_t rows = problem_.num_rows();
  if (rows > options_.permutation_rows && !patterns && searches(listed)) {
    candidate_row row{listed.name()};
    row.note = "not measured: " + std::to_string(rows) + " rows; name it in `candidates` to insist";
    rows_.push_back(std::move(row));
    return;
  }
  std::vector<candidate> variants{listed};
  if (const auto fastest = fastest_setting_.find(listed.kernel); fastest != fastest_setting_.end()) {
    variants.push_back({listed.kernel, listed.permutation, fastest->second.second});
  }
  for (const candidate& variant : variants) {
    const std::string name = variant.name();
    const bool done =
        std::any_of(rows_.begin(), rows_.end(), [&](const candidate_row& row) { return row.name == name; });
    if (!done && matches(name, patterns)) measure(variant);
  }
}

void measuring::measure(const candidate& tried) {
  candidate_row row{tried.name()};
  try {
    row.note = reason_against(tried, problem_);
    if (row.note.empty()) {
      if (permutation_.name != tried.permutation) permutation_ = permute(problem_, tried.permutation);
      std::unique_ptr<plan> prepared = prepare_candidate(problem_, tried, permutation_);
      row.note = trial_.check(prepared->kernel_plan());
      if (row.note.empty()) {
        const timing times = time(*prepared);
        row.preparation_ms = prepared->preparation_ms();
        row.median_us = times.median;
        row.p10_us = times.p10;
        row.p90_us = times.p90;
        row.bytes = prepared->bytes();
        keep(std::move(prepared), tried, times.median);
      }
    }
  } catch (const error& failure) {
    if (!is_of_the_candidate(failure.kind())) throw;
    row.note = failure.what();
  } catch (const std::bad_alloc&) {
    row.note = "out of memory";
  }
  rows_.push_back(std::move(row));
}

timing measuring::time(plan& prepared) {
  if (options_.timer) return options_.timer(prepared);
  return trial_.time(prepared.kernel_plan(), problem_.cache, options_.repeats, 2, options_.budget_ms);
}

void measuring::keep(std::unique_ptr<plan> measured, const candidate& tried, double median_us) {
  if (!tried.is_permuted()) {
    const auto [fastest, is_first] = fastest_setting_.try_emplace(tried.kernel, median_us, tried.parameters);
    if (!is_first && median_us < fastest->second.first) fastest->second = {median_us, tried.parameters};
  }
  const double cost = median_us + 1e3 * measured->preparation_ms() / options_.calls;
  if (best_ && cost >= best_cost_) return;
  best_ = std::move(measured);
  best_cost_ = cost;
}

void finish_rows(explanation& found, double candidate_row::* time) {
  const auto is_baseline = [&](const candidate_row& row) { return row.name == found.baseline; };
  const auto baseline = std::find_if(found.rows.begin(), found.rows.end(), is_baseline);
  const double plain = baseline == found.rows.end() ? candidate_row::unknown : (*baseline).*time;
  for (candidate_row& row : found.rows) {
    if (row.*time > 0) row.speedup = plain / (row.*time);
    if (row.name == found.chosen) row.note = "chosen";
  }
  const auto known = [&](const candidate_row& row) {
    return std::isnan(row.*time) ? std::numeric_limits<double>::infinity() : row.*time;
  };
  std::stable_sort(found.rows.begin(), found.rows.end(),
                   [&](const candidate_row& a, const candidate_row& b) { return known(a) < known(b); });
}

explanation explain_measurements(const problem& given, std::int64_t floor_bytes, std::vector<candidate_row> rows,
                                 const std::string& chosen) {
  explanation found;
  found.based_on = explanation::basis::measured;
  found.chosen = chosen;
  found.baseline = make_candidate(baseline_kernel(given.op, given.order)).name();
  found.floor_bytes = floor_bytes;
  found.copy_bandwidth = copy_bandwidth(given.device);
  const double floor_us = 1e6 * static_cast<double>(found.floor_bytes) / found.copy_bandwidth;
  for (candidate_row& row : rows) {
    if (row.median_us > 0) row.floor_share = floor_us / row.median_us;
  }
  found.rows = std::move(rows);
  finish_rows(found, &candidate_row::median_us);
  return found;
}

}  // namespace warploom
