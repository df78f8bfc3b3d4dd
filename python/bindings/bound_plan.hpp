// A plan as Python holds it, for all files that bind what works on plans.
#pragma once

#include <memory>

#include "common.hpp"
#include "enqueueing.hpp"
#include "warploom/plan.hpp"

namespace warploom::python {

struct bound_plan {
  csr_holder matrix;  // a plan may look at its arrays
  std::unique_ptr<plan> planned;
  enqueueing turns{};
};

}  // namespace warploom::python
