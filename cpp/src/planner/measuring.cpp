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

bool is_plain_csr(const candidate& tried, const problem& given) {
  return !tried.is_permuted() && tried.kernel == &cpu_baseline_kernel(given.op, given.order) &&
         tried.has_default_parameters();
}

// Whether it won most often among the settings of its kernel, where kernels other than plain CSR won at all.
bool is_first_on_cpu(const candidate& listed) {
  const product_kernel& kernel = *listed.kernel;
  return kernel.first_on_cpu && !listed.is_permuted() &&
         listed.parameters == complete_parameters(kernel, *kernel.first_on_cpu);
}

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

std::vector<candidate> candidates_to_measure(const problem& given, const name_patterns& patterns, bool try_all_on_cpu) {
  candidate_filter filter{given.order, given.on_gpu(), given.dtype(), given.precision};
  // Row permutations balance warps and thread blocks, which a CPU has not.
  filter.tried_on_cpu = !given.on_gpu() && !patterns && !try_all_on_cpu;
  std::vector<candidate> found;
  for (candidate& c : enumerate_candidates(given.op, filter)) {
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
  std::vector<candidate> listed = candidates_to_measure(problem_, patterns, options_.try_all_on_cpu);
  if (listed.empty()) {
    throw error(error_kind::parameter, "candidates", -1,
                std::string("no candidate for ") + name_of(problem_.order) + "-major operands matches the patterns");
  }
  const bool is_short = std::isfinite(options_.products);
  const auto is_first = [&](const candidate& c) { return is_short && is_first_on_cpu(c); };
  // Settings that are not the default ones, and permutations, last: those of kernels that turned out fast first.
  const auto defaults_end = std::stable_partition(listed.begin(), listed.end(), [&](const candidate& c) {
    return (!c.is_permuted() && c.has_default_parameters()) || is_first(c);
  });
  const auto defaults = defaults_end - listed.begin();
  std::stable_partition(listed.begin(), defaults_end, is_first);
  std::stable_partition(listed.begin(), defaults_end, [&](const candidate& c) {
    return c.kernel->vendor || is_plain_csr(c, problem_) || c.kernel == &baseline_kernel(problem_.op, problem_.order);
  });
  const auto total = static_cast<std::int64_t>(listed.size());
  if (!is_short) measure_compared();
  std::vector<candidate> left;
  for (std::int64_t i = 0; i < total; ++i) {
    if (i == defaults) sort_by_promise(listed.begin() + i, listed.end());
    const candidate& next = listed[i];
    if (progress) progress(i, total, next.name());
    if (is_time_for(next)) {
      measure_variants(next, patterns);
    } else {
      left.push_back(next);
    }
  }
  prefer_plain_csr();
  if (is_short) {
    measure_compared();  // which the others need not wait for
    left = measure_on(std::move(left), patterns, total, progress);
  }
  for (const candidate& c : left) leave_out(c);
  if (has_best()) return;
  std::string reasons;
  for (std::size_t i = 0; i < std::min<std::size_t>(rows_.size(), 5); ++i) {
    reasons += (i == 0 ? "" : "; ") + rows_[i].name + ": " + rows_[i].note;
  }
  if (lacked_memory_ > 0) {
    throw error(error_kind::out_of_memory, "candidates", -1, "no candidate fits into memory: " + reasons);
  }
  throw error(error_kind::parameter, "candidates", -1, "no candidate can run this problem: " + reasons);
}

// More time, where what was chosen is slower than somebody else's product, until it is not; returns what is left then.
std::vector<candidate> measuring::measure_on(std::vector<candidate> left, const name_patterns& patterns,
                                             std::int64_t total, const progress_function& progress) {
  constexpr double times_longer = 4;
  if (left.empty() || !is_slower_than_compared()) return left;
  options_.products *= times_longer;
  const auto settings = std::find_if(left.begin(), left.end(),
                                     [](const candidate& c) { return c.is_permuted() || !c.has_default_parameters(); });
  sort_by_promise(settings, left.end());
  const std::int64_t done = total - static_cast<std::int64_t>(left.size());
  std::vector<candidate> still_left;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!is_slower_than_compared() || !is_time_for(left[i])) {
      still_left.push_back(left[i]);
      continue;
    }
    if (progress) progress(done + static_cast<std::int64_t>(i), total, left[i].name());
    const double before = best_cost_;
    measure_variants(left[i], patterns);
    if (best_cost_ != before) prefer_plain_csr();
  }
  return still_left;
}

bool measuring::is_time_for(const candidate& listed) const {
  return !has_best() || seconds() + expected_time(listed) <= limit();
}

bool measuring::is_slower_than_compared() const { return has_best() && best_us_ > compared_us_; }

// Kernels by their time, without a permutation before with one; permutations in the order of their registry, so that
// each is computed once for all kernels.
void measuring::sort_by_promise(std::vector<candidate>::iterator first, std::vector<candidate>::iterator last) const {
  const auto known = permutation_algorithms();
  const auto key = [&](const candidate& c) {
    const auto position =
        std::find_if(known.begin(), known.end(), [&](const auto& p) { return c.permutation == p.name; });
    const auto fastest = fastest_setting_.find(c.kernel);
    return std::pair(c.is_permuted() ? 1 + (position - known.begin()) : 0, fastest == fastest_setting_.end()
                                                                               ? std::numeric_limits<double>::infinity()
                                                                               : fastest->second.first);
  };
  std::stable_sort(first, last, [&](const candidate& a, const candidate& b) { return key(a) < key(b); });
}

double measuring::limit() const { return std::min(options_.budget, options_.products * 1e-6 * plain_us_); }

double measuring::products() const {
  return limit() < options_.budget ? options_.products : std::numeric_limits<double>::infinity();
}

double measuring::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

// As long as the same kernel took in another setting, or else the mean of all kernels.
double measuring::expected_time(const candidate& listed) const {
  const auto same = taken_.find(listed.kernel);
  if (same != taken_.end()) return same->second;
  double sum = 0;
  for (const auto& [kernel, time] : taken_) sum += time;
  return taken_.empty() ? 0 : sum / static_cast<double>(taken_.size());
}

void measuring::leave_out(const candidate& listed) {
  candidate_row row{listed.name()};
  row.note = "left out: no time";
  rows_.push_back(std::move(row));
  ++left_out_;
}

void measuring::measure_compared() {
  for (const compared_product& other : options_.compared) {
    candidate_row row{other.name};
    row.preparation_ms = 0;
    try {
      row.note = trial_.check(*other.product);
      if (row.note.empty()) {
        const timing times =
            trial_.time(*other.product, problem_.cache, options_.repeats, warmup(), options_.budget_ms);
        row.median_us = times.median;
        row.p10_us = times.p10;
        row.p90_us = times.p90;
        compared_us_ = std::min(compared_us_, times.median);
      }
    } catch (const std::bad_alloc&) {
      row.note = "out of memory";
    }
    rows_.push_back(std::move(row));
  }
}

// Times on a CPU scatter: what is not clearly faster in nearly all turns with plain CSR does not replace it.
void measuring::prefer_plain_csr() {
  constexpr double margin = 0.97;
  constexpr int turns = 5;
  const int repeats = std::max(1, options_.repeats / 3);
  if (!plain_ || !best_ || options_.timer) return;
  int faster = 0;
  for (int turn = 0; turn < turns; ++turn) {
    const double plain = trial_.time(plain_->kernel_plan(), problem_.cache, repeats, 1, options_.budget_ms / 10).median;
    const double best = trial_.time(best_->kernel_plan(), problem_.cache, repeats, 1, options_.budget_ms / 10).median;
    faster += best < margin * plain;
  }
  if (faster + 1 < turns) {
    best_ = std::move(plain_);
    best_us_ = plain_us_;
    best_cost_ = cost(*best_, plain_us_);
  }
}

void measuring::measure_variants(const candidate& listed, const name_patterns& patterns) {
  if (!listed.is_permuted()) return measure(listed);
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

void measuring::prepare_and_time(const candidate& tried, candidate_row& row) {
  if (permutation_.name != tried.permutation) permutation_ = permute(problem_, tried.permutation);
  std::unique_ptr<plan> prepared = prepare_candidate(problem_, tried, permutation_);
  row.note = trial_.check(*prepared);
  if (!row.note.empty()) return;
  const timing times = time(*prepared);
  row.preparation_ms = prepared->preparation_ms();
  row.median_us = times.median;
  row.p10_us = times.p10;
  row.p90_us = times.p90;
  row.bytes = prepared->bytes();
  keep(std::move(prepared), tried, times.median);
}

void measuring::measure(const candidate& tried) {
  candidate_row row{tried.name()};
  const double start = seconds();
  for (bool again = true; again;) {
    again = false;
    bool lacked_memory = false;
    try {
      row.note = reason_against(tried, problem_);
      if (row.note.empty()) prepare_and_time(tried, row);
    } catch (const error& failure) {
      if (!is_of_the_candidate(failure.kind())) throw;
      lacked_memory = failure.kind() == error_kind::out_of_memory;
      row.note = failure.what();
    } catch (const std::bad_alloc&) {
      lacked_memory = true;
      row.note = "out of memory";
    }
    if (!lacked_memory) break;
    if (best_) {
      // Both need not fit: the best is prepared again if it is still the best in the end.
      dropped_ = best_->chosen();
      best_.reset();
      row = candidate_row{tried.name()};
      again = true;
    } else {
      ++lacked_memory_;
    }
  }
  double taken = seconds() - start;
  if (rows_.empty() && std::isfinite(options_.products) && row.median_us > 0) {
    // The first one starts threads, touches memory first and computes what all are checked with: what of that
    // goes beyond four tenths of the limit is not counted, as there would be no time for another one.
    const double most = 0.4e-6 * row.median_us * options_.products;
    const double again = 1e-3 * row.preparation_ms + 1e-6 * row.median_us * (1 + warmup() + options_.repeats);
    const std::chrono::duration<double> once(std::max(0.0, taken - std::max(most, again)));
    start_ += std::chrono::duration_cast<std::chrono::steady_clock::duration>(once);
    taken -= once.count();
  }
  rows_.push_back(std::move(row));
  taken_[tried.kernel] = taken;
}

std::unique_ptr<plan> measuring::take_best() {
  if (!best_ && dropped_) best_ = prepare_candidate(problem_, *dropped_);
  dropped_.reset();
  return std::move(best_);
}

timing measuring::time(plan& prepared) {
  if (options_.timer) return options_.timer(prepared);
  return trial_.time(prepared.kernel_plan(), problem_.cache, options_.repeats, warmup(), options_.budget_ms);
}

// Microseconds of a product, with its share of the preparation.
double measuring::cost(const plan& measured, double median_us) const {
  return median_us + 1e3 * measured.preparation_ms() / options_.calls;
}

void measuring::keep(std::unique_ptr<plan> measured, const candidate& tried, double median_us) {
  if (!tried.is_permuted()) {
    const auto [fastest, is_first] = fastest_setting_.try_emplace(tried.kernel, median_us, tried.parameters);
    if (!is_first && median_us < fastest->second.first) fastest->second = {median_us, tried.parameters};
  }
  const double its_cost = cost(*measured, median_us);
  const bool is_best = !has_best() || its_cost < best_cost_;
  const bool is_plain = !problem_.on_gpu() && is_plain_csr(tried, problem_);
  if (is_plain) plain_us_ = median_us;
  if (is_best) {
    if (best_ && !problem_.on_gpu() && is_plain_csr(best_->chosen(), problem_)) plain_ = std::move(best_);
    best_ = std::move(measured);
    dropped_.reset();
    best_us_ = median_us;
    best_cost_ = its_cost;
  } else if (is_plain) {
    plain_ = std::move(measured);
  }
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

namespace {

// The default algorithm of the vendor's library on CSR, on a GPU.
std::string vendor_default(const problem& given) {
  for (const product_kernel& kernel : kernels(given.op)) {
    if (given.on_gpu() && kernel.vendor && kernel.format == "csr") return make_candidate(kernel).name();
  }
  return "";
}

bool is_timed(const std::vector<candidate_row>& rows, const std::string& name) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const candidate_row& row) { return row.name == name && row.median_us > 0; });
}

}  // namespace

explanation explain_measurements(const problem& given, std::int64_t floor_bytes, std::vector<candidate_row> rows,
                                 const std::string& chosen, const std::vector<compared_product>& compared) {
  explanation found;
  found.based_on = explanation::basis::measured;
  found.chosen = chosen;
  const product_kernel& plain =
      given.on_gpu() ? baseline_kernel(given.op, given.order) : cpu_baseline_kernel(given.op, given.order);
  found.baseline = compared.empty() ? make_candidate(plain).name() : compared.front().name;
  if (const std::string vendor = vendor_default(given); is_timed(rows, vendor)) found.baseline = vendor;
  found.floor_bytes = floor_bytes;
  found.copy_bandwidth = copy_bandwidth(given.device);
  const double floor_us = 1e6 * static_cast<double>(found.floor_bytes) / found.copy_bandwidth;  // NaN if not known
  for (candidate_row& row : rows) {
    if (row.median_us > 0) row.floor_share = floor_us / row.median_us;
  }
  found.rows = std::move(rows);
  finish_rows(found, &candidate_row::median_us);
  return found;
}

}  // namespace warploom
