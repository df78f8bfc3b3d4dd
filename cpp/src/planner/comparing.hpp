// A quick comparison of a few candidates on a GPU, for choices that a model alone should not make but that are not
// worth a measurement: some twenty products in all, with operands that hold zeros.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planner/trial.hpp"
#include "warploom/plan.hpp"

namespace warploom {

// Products that comparing one candidate takes.
constexpr int products_to_compare = 5;

struct comparison {
  std::vector<candidate_row> rows;  // of the candidates that could be timed
  std::unique_ptr<plan> best;       // null if none could
  std::string lacked_memory{};      // for what, or empty: there is nothing else then
};

// `timer` takes the place of the clock, if there is one. What is best takes least with its preparation shared out over
// `calls` products. A candidate that the matrix does not allow is left out; where memory does not suffice, for operands
// or a candidate, nothing is compared.
comparison compare(const problem& given, const std::vector<candidate>& candidates, double calls,
                   const std::function<timing(plan&)>& timer);

}  // namespace warploom
