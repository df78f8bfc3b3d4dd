// Selection by prediction: features and trained models instead of measurements, and where the models are unsure, the
// few candidates that may be the fastest are measured.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "planner/measuring.hpp"
#include "warploom/planner.hpp"
#include "warploom/selector.hpp"

namespace warploom {

// Most candidates that are measured where a prediction is unsure or is to be verified, beside the vendor's.
inline constexpr std::size_t max_measured = 6;

// What predicts, and where it comes from.
struct prediction_source {
  selector chooser;
  std::string gpu;
  std::string note;           // empty, or that it is for another GPU than the one at hand
  bool holds_for_gpu = true;  // the one at hand
};

// What planning depends on beside its arguments; tests put known things in its place.
struct surroundings {
  std::function<timing(plan&)> timer{};  // null: the clock
  std::int64_t permutation_rows = max_searched_rows;
};

// Chooses, measures where that is worth it, and prepares. Throws error_kind::parameter if no candidate that the models
// know matches the patterns and can run the problem.
std::unique_ptr<plan> plan_by_prediction(const problem& given, std::shared_ptr<const prediction_source> from,
                                         const plan_options& options, const surroundings& in = {});

// Where measuring needs more memory than there is, such as for operands: what is predicted to be fastest of what fits.
std::unique_ptr<plan> plan_without_measuring(const problem& given, std::shared_ptr<const prediction_source> from,
                                             const plan_options& options, const std::string& reason,
                                             const surroundings& in = {});

// What would be chosen on a GPU that need not be there.
explanation explain_by_prediction(const problem& given, const prediction_source& from, const plan_options& options,
                                  const surroundings& in = {});

}  // namespace warploom
