// Preparing, checking and timing candidates for one problem: what selection by measurement, unsure predictions, sweeps
// and experiments all do it with.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "warploom/permutation.hpp"
#include "warploom/plan.hpp"

namespace warploom {

// Row permutations above this many rows are only searched for by name: that takes far longer than it can win back.
inline constexpr std::int64_t max_searched_rows = 100'000;

// A row permutation, and how long it took to compute.
struct timed_permutation {
  std::string name = "none";
  row_permutation perm;  // empty for "none", and where it is on a GPU instead
  double milliseconds = 0;
  device_permutation on_gpu{};  // in the memory of the GPU of the problem
};

// Who may compute what a GPU gives up: it takes the host a hundred times as long.
enum class given_up { computed_by_host, refused };

// Throws error_kind::parameter if a GPU gives up and the host may not compute it.
timed_permutation permute(const problem& given, const std::string& name, given_up then = given_up::computed_by_host);

// Prepares a candidate. `rows` is its permutation.
std::unique_ptr<plan> prepare_candidate(const problem& given, const candidate& chosen, const timed_permutation& rows,
                                        const kernel_inputs& inputs = {});
// The same, computing the permutation.
std::unique_ptr<plan> prepare_candidate(const problem& given, const candidate& chosen,
                                        const kernel_inputs& inputs = {});

// Why the candidate cannot run the problem, or "". Where rows are permuted on a GPU, preparing it may refuse the
// pattern that they make.
std::string reason_against(const candidate& tried, const problem& given);

// Repeated times, in microseconds.
struct timing {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
  int repeats = 0;
};

// Percentiles by linear interpolation, as NumPy computes them.
timing summarize(std::vector<double> microseconds);

// Operands of a problem on its device.
class trial {
 public:
  // Throws error_kind::out_of_memory if they do not fit.
  explicit trial(const problem& given);
  ~trial();
  trial(const trial&) = delete;
  trial& operator=(const trial&) = delete;

  const problem& of() const { return problem_; }

  // Runs a plan once and compares a sample of its result with float64 sums: the first, the last and the longest row
  // among 64 whole rows, or in column-major order up to 8 columns of about 16,384 rows. Returns what is wrong, or "".
  // Where sums may be rounded to the value type with every product that is added, not only in the end, say so.
  std::string check(plan& checked, bool rounds_sums = false);
  std::string check(product_plan& checked, product_precision precision = product_precision::full,
                    bool rounds_sums = false);

  // Fewer repeats, but at least three, where they would take longer than the budget.
  timing time(product_plan& timed, cache_state cache, int repeats, int warmup, double budget_ms);

 private:
  struct operands;
  struct expectation;

  const expectation& expected();
  std::vector<double> time_on_cpu(product_plan& timed, bool cold, int repeats, int warmup, double budget_ms);

  const problem& problem_;
  std::unique_ptr<operands> operands_;
  std::unique_ptr<expectation> expectation_;
  std::vector<double> evicting_;
};

// Bytes per second, read plus written, of a large copy on a GPU or (negative) on the CPU. Measured once.
double copy_bandwidth(int device);

}  // namespace warploom
