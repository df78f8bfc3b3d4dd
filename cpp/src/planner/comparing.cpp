#include "planner/comparing.hpp"

#include <algorithm>
#include <new>
#include <optional>

#include "warploom/error.hpp"

namespace warploom {
namespace {

bool is_of_the_candidate(error_kind kind) {
  return kind == error_kind::index_overflow || kind == error_kind::out_of_memory || kind == error_kind::parameter;
}

// B and C of a problem on a GPU: no kernel's time depends on the values.
class zero_operands {
 public:
  explicit zero_operands(const problem& given)
      : k_(given.k),
        by_row_(given.order == layout::row_major),
        itemsize_(size_of(given.dtype())),
        B_(make(given, given.num_cols())),
        C_(make(given, given.num_rows())) {}

  timing time(plan& timed, bool cold) const {
    timing_options options;
    options.cold = cold;
    options.warmup = 1;
    options.repeats = options.min_repeats = products_to_compare - 2;  // time_on_device runs once before it warms up
    return summarize(
        time_on_device([&](CUstream_st* stream) { timed.kernel_plan().run(B_, C_, stream); }, options, nullptr));
  }

 private:
  dense_view make(const problem& given, std::int64_t rows) {
    const std::size_t bytes = std::max<std::size_t>(static_cast<std::size_t>(rows) * k_ * itemsize_, 1);
    memory_.push_back(given.allocate(bytes));
    fill_device(memory_.back().get(), 0, bytes, nullptr);
    return {memory_.back().get(), rows, k_, std::max<std::int64_t>(by_row_ ? k_ : rows, 1)};
  }

  std::vector<std::shared_ptr<void>> memory_;
  std::int64_t k_;
  bool by_row_;
  std::size_t itemsize_;
  dense_view B_, C_;
};

}  // namespace

comparison compare(const problem& given, const std::vector<candidate>& candidates, double calls,
                   const std::function<timing(plan&)>& timer) {
  comparison found;
  std::optional<device_guard> guard;
  std::optional<zero_operands> operands;
  if (!timer) {
    guard.emplace(given.device);
    try {
      operands.emplace(given);
    } catch (const error& failure) {
      if (failure.kind() != error_kind::out_of_memory) throw;
      found.lacked_memory = failure.what();
      return found;
    }
  }
  // Operands take memory that a candidate may need: whether it fits without them is for whoever prepares it to see.
  std::string lacked_memory;
  double least = 0;
  for (const candidate& tried : candidates) {
    try {
      auto prepared = prepare_candidate(given, tried);
      const timing times = timer ? timer(*prepared) : operands->time(*prepared, given.cache == cache_state::cold);
      candidate_row row{tried.name()};
      row.preparation_ms = prepared->preparation_ms();
      row.median_us = times.median;
      row.p10_us = times.p10;
      row.p90_us = times.p90;
      row.bytes = prepared->bytes();
      found.rows.push_back(std::move(row));
      const double cost = times.median + 1e3 * prepared->preparation_ms() / calls;
      if (found.best && cost >= least) continue;
      found.best = std::move(prepared);
      least = cost;
    } catch (const error& failure) {
      if (!is_of_the_candidate(failure.kind())) throw;
      if (failure.kind() == error_kind::out_of_memory) lacked_memory = failure.what();
    } catch (const std::bad_alloc&) {
      lacked_memory = "out of memory";
    }
    if (!lacked_memory.empty()) return {{}, nullptr, std::move(lacked_memory)};
  }
  return found;
}

}  // namespace warploom
