// New values for the matrix of a plan that is there already.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "warploom/plan.hpp"

namespace warploom {

class value_updates {
 public:
  virtual ~value_updates() = default;

  // Gives `prepared` the values `data`, [nnz] in the order of the matrix and in the memory of the plan. Enqueued on
  // `stream` where every value has its places; where some were added up in preparation the matrix is converted again,
  // which replaces `prepared` and is complete on return. On the CPU always complete on return.
  virtual void update(std::unique_ptr<product_plan>& prepared, const void* data, CUstream_st* stream) = 0;
  // Memory on the device of the plan.
  virtual std::size_t bytes() const = 0;
};

// Prepares a candidate once more, in place of `prepared`, so that its values can be updated. Complete on return.
std::unique_ptr<value_updates> prepare_updates(const problem& given, const candidate& chosen,
                                               std::span<const std::int32_t> perm, const kernel_inputs& inputs,
                                               std::unique_ptr<product_plan>& prepared);

}  // namespace warploom
