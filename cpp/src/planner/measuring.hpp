// Selection by measurement: every candidate is prepared, checked and timed on the device at hand.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/trial.hpp"
#include "warploom/planner.hpp"

namespace warploom {

struct measuring_options {
  double calls = std::numeric_limits<double>::infinity();  // what is kept takes least with preparation shared out
  std::int64_t permutation_rows = max_searched_rows;       // no search for nearest rows above, unless named
  int repeats = 30;
  double budget_ms = 50;                                    // fewer repeats if they would take longer than this
  double budget = std::numeric_limits<double>::infinity();  // seconds for all candidates
  // The same in products of plain CSR, on the CPU: with fewer repeats, and what won most often elsewhere first.
  double products = std::numeric_limits<double>::infinity();
  std::vector<compared_product> compared{};  // on the CPU
  bool try_all_on_cpu = false;               // not only what is worth trying there
  std::function<timing(plan&)> timer{};      // in place of the clock, where times are to be known beforehand
};

// One run of the measurement: operands, the permutation computed last, rows of the table, and the best plan.
class measuring {
 public:
  measuring(const problem& given, const measuring_options& options);

  // Candidates in the caller's row order, first with the default parameters of every kernel, then with the other
  // settings, those of fast kernels first; then row permutations, each with the kernel's default parameters and with
  // the setting that was fastest without it. Throws error_kind::parameter if no candidate matches the patterns, or none
  // can run the problem; error_kind::out_of_memory if one could with more memory.
  void measure_all(const name_patterns& patterns, const progress_function& progress);

  // Prepares, checks and times one candidate; a failure becomes the note of its row.
  void measure(const candidate& tried);

  const std::vector<candidate_row>& rows() const { return rows_; }
  std::unique_ptr<plan> take_best();                   // null if none could be measured
  std::int64_t left_out() const { return left_out_; }  // candidates for which there was no time
  double products() const;  // of plain CSR that there was time for, or infinite where another limit came first
  std::int64_t lacked_memory() const { return lacked_memory_; }  // candidates that did not fit into memory

 private:
  void prepare_and_time(const candidate& tried, candidate_row& row);
  bool has_best() const { return best_ || dropped_; }
  timing time(plan& prepared);
  void measure_compared();
  void sort_by_promise(std::vector<candidate>::iterator first, std::vector<candidate>::iterator last) const;
  void leave_out(const candidate& listed);
  void measure_variants(const candidate& listed, const name_patterns& patterns);
  std::vector<candidate> measure_on(std::vector<candidate> left, const name_patterns& patterns, std::int64_t total,
                                    const progress_function& progress);
  bool is_time_for(const candidate& listed) const;
  bool is_slower_than_compared() const;
  double cost(const plan& measured, double median_us) const;
  double seconds() const;  // since this run began
  double limit() const;    // of them
  int warmup() const { return std::min(2, options_.repeats); }
  double expected_time(const candidate& listed) const;
  void prefer_plain_csr();
  void keep(std::unique_ptr<plan> measured, const candidate& tried, double median_us);

  const problem& problem_;
  measuring_options options_;
  trial trial_;
  std::vector<candidate_row> rows_;
  std::unique_ptr<plan> best_;
  std::optional<candidate> dropped_;  // the best, where its memory was needed for another
  double best_us_ = 0;
  double best_cost_ = 0;
  double compared_us_ = std::numeric_limits<double>::infinity();  // the fastest of those compared with
  double plain_us_ = std::numeric_limits<double>::infinity();     // of plain CSR on the CPU, once it is measured
  std::unique_ptr<plan> plain_;  // on the CPU: the kernel that the others are to beat clearly, if it is not the best
  std::map<const product_kernel*, std::pair<double, parameter_values>> fastest_setting_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::map<const product_kernel*, double> taken_;  // seconds for the last candidate, preparation included
  std::int64_t left_out_ = 0;
  timed_permutation permutation_;
  std::int64_t lacked_memory_ = 0;  // candidates
};

// Candidates that measuring goes through: all that are not redundant, and on the CPU worth trying there, or those that
// match the patterns and any that a pattern names in full.
std::vector<candidate> candidates_to_measure(const problem& given, const name_patterns& patterns,
                                             bool try_all_on_cpu = false);

// Speedups over the baseline by `time`, which row was chosen, and the order: fastest first.
void finish_rows(explanation& found, double candidate_row::* time);

// The table of measurements. `floor_bytes` is product_floor_bytes of the problem.
explanation explain_measurements(const problem& given, std::int64_t floor_bytes, std::vector<candidate_row> rows,
                                 const std::string& chosen, const std::vector<compared_product>& compared = {});

}  // namespace warploom
