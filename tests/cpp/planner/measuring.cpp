#include "planner/measuring.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "planner/problems.hpp"

namespace warploom {
namespace {

using test::error_of;
using test::known_times;
using test::small_matrix;

std::string permutation_of(const std::string& name) { return parse_candidate(name).permutation; }

TEST_CASE("the fastest is kept, and everything listed is measured once") {
  const small_matrix A;
  const problem given = A.spmm();
  known_times clock{{{"spmm/plain/dcsr/row_split", 3}}};
  measuring_options options;
  options.try_all_on_cpu = true;
  options.timer = std::ref(clock);
  measuring session(given, options);
  std::vector<std::string> steps;
  session.measure_all(std::nullopt, [&](std::int64_t done, std::int64_t total, const std::string& name) {
    CHECK(done == static_cast<std::int64_t>(steps.size()));
    CHECK(total == static_cast<std::int64_t>(candidates_to_measure(given, std::nullopt, true).size()));
    steps.push_back(name);
  });
  CHECK(session.take_best()->chosen().name() == "spmm/plain/dcsr/row_split");
  std::set<std::string> names;
  for (const candidate_row& row : session.rows()) CHECK(names.insert(row.name).second);
  for (const candidate& c : candidates_to_measure(given, std::nullopt, true)) CHECK(names.contains(c.name()));
  // The caller's row order first, then one permutation after the other.
  std::vector<std::string> order;
  for (const std::string& name : steps) {
    if (order.empty() || order.back() != permutation_of(name)) order.push_back(permutation_of(name));
  }
  CHECK(order.front() == "none");
  CHECK(order.size() == permutation_algorithms().size());
}

TEST_CASE("a permutation is measured with the setting that was fastest without it, too") {
  const small_matrix A;
  const problem given = A.spmm(4, layout::column_major);
  known_times clock{{{"spmm/none/csr/c_stationary[tile_width=8]", 3}}};
  measuring_options options;
  options.timer = std::ref(clock);
  measuring session(given, options);
  session.measure_all(name_patterns{{"*/csr/c_stationary*"}}, {});
  const auto timed = [&](const char* name) {
    return std::count(clock.timed.begin(), clock.timed.end(), std::string(name));
  };
  CHECK(timed("spmm/lpt/csr/c_stationary") == 1);
  CHECK(timed("spmm/lpt/csr/c_stationary[tile_width=8]") == 1);
}

TEST_CASE("only what matches is measured, and what is named in full need not be listed") {
  const small_matrix A;
  const problem given = A.spmm();
  const std::string unlisted = "spmm/lpt/segmented-csr/row_split[segment_length=16]";
  std::set<std::string> names;
  for (const candidate& c : candidates_to_measure(given, name_patterns{{unlisted, "spmm/none/csr/*"}})) {
    names.insert(c.name());
  }
  CHECK(names.erase(unlisted) == 1);
  CHECK(!names.empty());
  for (const std::string& name : names) CHECK(name.find("spmm/none/csr/") == 0);

  measuring session(given, {});
  const error nothing = error_of([&] { session.measure_all(name_patterns{{"spmv/*"}}, {}); });
  CHECK(nothing.argument() == "candidates");
}

TEST_CASE("permutations that search are left out of large matrices unless they are named") {
  const small_matrix A;
  const problem given = A.spmm();
  known_times clock{};
  measuring_options options;
  options.timer = std::ref(clock);
  options.permutation_rows = 10;
  options.try_all_on_cpu = true;
  measuring session(given, options);
  session.measure_all(std::nullopt, {});
  for (const candidate_row& row : session.rows()) {
    const bool left_out = row.note.find("not measured") == 0;
    CHECK(left_out == find_permutation(permutation_of(row.name)).searches);
  }
  measuring named(given, options);
  named.measure_all(name_patterns{{"spmm/cta-aware/*"}}, {});
  for (const candidate_row& row : named.rows()) CHECK(!std::isnan(row.median_us));
}

TEST_CASE("on the CPU nothing is tried that is made for warps, unless it is named") {
  const small_matrix A;
  for (const problem& given : {A.spmm(), A.spmv()}) {
    const std::vector<candidate> tried = candidates_to_measure(given, std::nullopt);
    CHECK(!tried.empty());
    for (const candidate& c : tried) {
      CHECK(c.permutation == "none");
      CHECK(c.kernel->tried_on_cpu);
    }
    const std::string plain = make_candidate(cpu_baseline_kernel(given.op, given.order)).name();
    CHECK(std::any_of(tried.begin(), tried.end(), [&](const candidate& c) { return c.name() == plain; }));
  }
  CHECK(candidates_to_measure(A.spmv(), name_patterns{{"spmv/lpt/csr/scalar"}}).size() == 1);
}

TEST_CASE("candidates for which there is no time are left out, the plain one never") {
  const small_matrix A;
  const problem given = A.spmv();
  known_times clock{};
  measuring_options options;
  options.timer = std::ref(clock);
  options.budget = 1e-9;
  measuring session(given, options);
  session.measure_all(std::nullopt, {});
  REQUIRE(session.rows().size() == candidates_to_measure(given, std::nullopt).size());
  CHECK(session.left_out() == static_cast<std::int64_t>(session.rows().size()) - 1);
  CHECK(session.rows()[0].name == "spmv/none/csr/vector");
  CHECK(!std::isnan(session.rows()[0].median_us));
  for (std::size_t i = 1; i < session.rows().size(); ++i) CHECK(session.rows()[i].note == "left out: no time");
  CHECK(session.take_best()->chosen().name() == "spmv/none/csr/vector");
}

TEST_CASE("a limit in products of plain CSR leaves out what exceeds it, and tries first what wins most often") {
  const small_matrix A;
  const problem given = A.spmv();
  const std::string plain = "spmv/none/csr/vector";
  const std::string often = "spmv/none/sell/vector[threads_per_row=2,sort_window=4096]";
  const auto names_within = [&](double products, double plain_us) {
    known_times clock{{{plain, plain_us}, {often, 3}}};
    measuring_options options;
    options.timer = std::ref(clock);
    options.products = products;
    measuring session(given, options);
    session.measure_all(std::nullopt, {});
    CHECK(session.rows().size() == candidates_to_measure(given, std::nullopt).size());
    CHECK(session.left_out() == static_cast<std::int64_t>(session.rows().size() - clock.timed.size()));
    CHECK(session.take_best()->chosen().name() == (clock.timed.size() == 1 ? plain : often));
    return clock.timed;
  };
  // A microsecond, and an hour.
  CHECK(names_within(0.1, 10) == std::vector<std::string>{plain});
  const std::vector<std::string> all = names_within(360, 10e6);
  REQUIRE(all.size() == candidates_to_measure(given, std::nullopt).size());
  CHECK(all[0] == plain);
  CHECK(all[1] == often);
  CHECK(parse_candidate(all[2]).has_default_parameters());
}

TEST_CASE("what is tried first on a CPU is a setting that is measured there") {
  int first = 0;
  for (const operation op : {operation::spmm, operation::spmv}) {
    const std::vector<candidate> listed = enumerate_candidates(op, {std::nullopt, /*on_gpu=*/false, std::nullopt});
    for (const product_kernel& kernel : kernels(op)) {
      if (!kernel.first_on_cpu) continue;
      CHECK(kernel.tried_on_cpu);
      const candidate named = make_candidate(kernel, "none", *kernel.first_on_cpu);
      CHECK(std::find(listed.begin(), listed.end(), named) != listed.end());
      ++first;
    }
  }
  CHECK(first > 0);
}

TEST_CASE("other settings are tried in the order of the kernels' times") {
  const small_matrix A;
  const problem given = A.spmv();
  known_times clock{
      {{"spmv/none/csr/vector", 5}, {"spmv/none/sell/vector", 3}, {"spmv/none/compressed-sell/vector", 4}}};
  measuring_options options;
  options.timer = std::ref(clock);
  measuring session(given, options);
  std::vector<std::string> formats;
  session.measure_all(std::nullopt, [&](std::int64_t, std::int64_t, const std::string& name) {
    const std::string format = parse_candidate(name).kernel->format;
    if (formats.empty() || formats.back() != format) formats.push_back(format);
  });
  CHECK(formats == std::vector<std::string>{"csr", "sell", "compressed-sell", "sell", "compressed-sell"});
}

namespace {

// Somebody else's product, right or wrong.
class other_product final : public product_plan {
 public:
  other_product(const problem& given, bool right) : right_(right), inner_(prepare_candidate(given, plain(given))) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (right_) inner_->kernel_plan().run(B, C, stream);
  }
  std::size_t bytes() const override { return 0; }

 private:
  static candidate plain(const problem& given) { return make_candidate(cpu_baseline_kernel(given.op, given.order)); }

  bool right_;
  std::unique_ptr<plan> inner_;
};

}  // namespace

TEST_CASE("products of other libraries are checked and timed, and are the baseline") {
  const small_matrix A;
  const problem given = A.spmv();
  measuring_options options;
  options.compared = {{"theirs", std::make_shared<other_product>(given, true)},
                      {"broken", std::make_shared<other_product>(given, false)}};
  measuring session(given, options);
  session.measure_all(name_patterns{{"spmv/none/csr/vector"}}, {});
  REQUIRE(session.rows().size() == 3);
  CHECK(session.rows()[0].name == "theirs");
  CHECK(session.rows()[0].median_us > 0);
  CHECK(session.rows()[0].preparation_ms == 0);
  CHECK(session.rows()[1].note.find("wrong result") == 0);
  const explanation found = explain_measurements(given, 1, session.rows(), "spmv/none/csr/vector", options.compared);
  CHECK(found.baseline == "theirs");
  for (const candidate_row& row : found.rows) {
    if (row.name == "theirs") CHECK(row.speedup == 1);
  }
}

TEST_CASE("what only the first candidate takes does not use up the limit in products of plain CSR") {
  const small_matrix A;
  const problem given = A.spmv();
  known_times clock{{{"spmv/none/csr/vector", 1000}}, 1};
  measuring_options options;
  options.repeats = 6;
  options.products = 50;  // 50 ms
  options.timer = [&](plan& of) {
    if (clock.timed.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return clock(of);
  };
  measuring session(given, options);
  session.measure_all(std::nullopt, {});
  CHECK(clock.timed.size() > 1);
  CHECK(session.take_best()->chosen().name() != "spmv/none/csr/vector");
}

TEST_CASE("where what was chosen is slower than somebody else's product, measuring goes on") {
  const small_matrix A;
  const problem given = A.spmv();
  const std::string plain = "spmv/none/csr/vector";
  const auto all = static_cast<std::int64_t>(candidates_to_measure(given, std::nullopt).size());
  struct outcome {
    std::vector<std::string> timed;
    std::string chosen;
    std::int64_t left_out;
    double products;
  };
  // Each takes 30 ms: of 40 there is no time left for a second one, of four times as much there is.
  const auto measured_with = [&](double other_us, double plain_us, int pause_ms, bool compared) {
    known_times clock{{{plain, plain_us}}, other_us};
    measuring_options options;
    options.repeats = 1;
    options.products = 0.04e6 / plain_us;
    options.timer = [&](plan& of) {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      return clock(of);
    };
    if (compared) options.compared = {{"theirs", std::make_shared<other_product>(given, true)}};
    measuring session(given, options);
    session.measure_all(std::nullopt, {});
    CHECK(session.left_out() + static_cast<std::int64_t>(clock.timed.size()) == all);
    std::int64_t noted = 0;
    std::set<std::string> names;
    for (const candidate_row& row : session.rows()) {
      noted += row.note == "left out: no time";
      CHECK(names.insert(row.name).second);
    }
    CHECK(noted == session.left_out());
    return outcome{clock.timed, session.take_best()->chosen().name(), session.left_out(), session.products()};
  };
  const double slow = 1e6, fast = 1e-6;  // theirs takes a microsecond, about
  const outcome alone = measured_with(fast, slow, 30, false);
  CHECK(alone.timed == std::vector<std::string>{plain});
  const outcome until_faster = measured_with(fast, slow, 30, true);
  CHECK(until_faster.timed.size() == 2);
  CHECK(until_faster.chosen == until_faster.timed[1]);
  CHECK(until_faster.products == doctest::Approx(4 * alone.products));
  const outcome until_the_end = measured_with(slow, slow, 30, true);
  CHECK(until_the_end.timed.size() > 1);
  CHECK(until_the_end.left_out > 0);  // 80 ms are time for a few of them only
  CHECK(until_the_end.chosen == plain);
  const outcome faster_at_once = measured_with(slow, fast, 30, true);
  CHECK(faster_at_once.left_out > 0);
  CHECK(faster_at_once.chosen == plain);
  CHECK(faster_at_once.products == doctest::Approx(0.04e6 / fast));
}

TEST_CASE("what a kernel refuses is a note, and if all refuse it is an error") {
  std::vector<std::vector<std::int32_t>> rows(3000, std::vector<std::int32_t>{0});
  for (std::int32_t j = 0; j < 5000; ++j) rows[7].push_back(j);
  const csr_matrix arrow = test::make_csr(5000, rows);
  problem given(arrow.view());
  given.k = 2;
  measuring session(given, {});
  const error refused = error_of([&] { session.measure_all(name_patterns{{"spmm/none/padded-csr/row_split"}}, {}); });
  CHECK(refused.argument() == "candidates");
  REQUIRE(session.rows().size() == 1);
  CHECK(session.rows()[0].note.find("entries for") != std::string::npos);
  CHECK(std::isnan(session.rows()[0].median_us));
}

// Lacks memory for a candidate as long as another plan is kept, or always.
struct small_memory {
  std::string wanted;
  bool ever;
  known_times clock{{{"spmv/none/csr/vector", 5}, {"spmv/none/sell/vector", 3}}};
  int refusals = 0;

  timing operator()(plan& of) {
    if (of.chosen().name() == wanted && (refusals == 0 || !ever)) {
      ++refusals;
      throw error(error_kind::out_of_memory, "", -1, "7 bytes are needed, and 5 are free");
    }
    return clock(of);
  }
};

TEST_CASE("the best gives way to a candidate that lacks memory, and is prepared again if it stays the best") {
  const small_matrix A;
  const problem given = A.spmv();
  const name_patterns two{{"spmv/none/csr/vector", "spmv/none/sell/vector"}};
  for (const bool fits : {true, false}) {
    for (const std::string wanted : {"spmv/none/csr/vector", "spmv/none/sell/vector"}) {
      small_memory memory{wanted, fits};
      measuring_options options;
      options.timer = std::ref(memory);
      measuring session(given, options);
      session.measure_all(two, {});
      const bool is_left = fits || wanted != "spmv/none/sell/vector";
      const bool was_first = session.rows()[0].name == wanted;  // nothing gives way to it
      CHECK(memory.refusals == (was_first ? 1 : fits ? 1 : 2));
      CHECK(session.lacked_memory() == (fits && !was_first ? 0 : 1));
      if (was_first) {
        CHECK(session.take_best()->chosen().name() == session.rows()[1].name);
        continue;
      }
      const auto best = session.take_best();
      REQUIRE(best);
      CHECK(best->chosen().name() == (is_left ? "spmv/none/sell/vector" : "spmv/none/csr/vector"));
      CHECK(best->bytes() > 0);
      const candidate_row& row = session.rows()[1];
      CHECK(row.name == wanted);
      CHECK(std::isnan(row.median_us) == !fits);
      if (!fits) CHECK(row.note == "7 bytes are needed, and 5 are free");
    }
  }
}

TEST_CASE("preparation counts where calls are few") {
  const small_matrix A;
  const problem given = A.spmm();
  // The permuted one is faster, but nothing is saved in a single product that its preparation did not cost.
  const std::string fast = "spmm/hybrid-2.1/csr/row_split", plain = "spmm/none/csr/row_split";
  for (const auto& [calls, chosen] : {std::pair{1e-3, plain}, {1e12, fast}}) {
    known_times clock{{{fast, 5}, {plain, 5.001}}};
    measuring_options options;
    options.timer = std::ref(clock);
    options.calls = calls;
    measuring session(given, options);
    session.measure_all(name_patterns{{fast, plain}}, {});
    CHECK(session.take_best()->chosen().name() == chosen);
  }
}

TEST_CASE("the table is in the order of times, with speedups over plain CSR") {
  const small_matrix A;
  const problem given = A.spmm();
  std::vector<candidate_row> rows(4);
  rows[0].name = "first";
  rows[0].note = "would not fit";
  rows[1].name = "spmm/none/csr/row_split";
  rows[1].median_us = 30;
  rows[2].name = "third";
  rows[2].median_us = 10;
  rows[3].name = "last";
  rows[3].median_us = 0;  // less than the clock can tell
  const explanation found =
      explain_measurements(given, product_floor_bytes(given.matrix(), given.k, given.dtype()), rows, "last");
  CHECK(found.baseline == "spmm/none/csr/row_split");
  std::vector<std::string> order;
  for (const candidate_row& row : found.rows) order.push_back(row.name);
  CHECK(order == std::vector<std::string>{"last", "third", "spmm/none/csr/row_split", "first"});
  CHECK(found.rows[0].note == "chosen");
  CHECK(std::isnan(found.rows[0].speedup));
  CHECK(found.rows[1].speedup == 3);
  CHECK(found.rows[2].speedup == 1);
  CHECK(found.rows[1].floor_share == doctest::Approx(1e5 * found.floor_bytes / found.copy_bandwidth));
  CHECK(found.rows[3].note == "would not fit");
}

}  // namespace
}  // namespace warploom
