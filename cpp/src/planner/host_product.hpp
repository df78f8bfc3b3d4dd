// Products of small operands in host memory by the CPU, which has the result before a GPU would have given it back.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "warploom/plan.hpp"

namespace warploom {

class host_product {
 public:
  // Copies the matrix of a plan on a GPU. Null where the GPU is quicker with as many columns as the plan is for, where
  // the matrix is not in host memory or can be updated, and for values that a CPU widens before it multiplies.
  static std::unique_ptr<host_product> prepare(const problem& given);

  // Whether the CPU is quicker with so many columns.
  bool is_quicker(std::int64_t columns) const { return is_quicker(sizes_, columns, transposes_); }
  product_plan& on_cpu() { return *prepared_; }

 private:
  host_product(const matrix_summary& sizes, bool transposes, std::unique_ptr<product_plan> prepared)
      : sizes_(sizes), transposes_(transposes), prepared_(std::move(prepared)) {}
  static bool is_quicker(const matrix_summary& sizes, std::int64_t columns, bool transposes);

  matrix_summary sizes_;
  bool transposes_;  // the operands, before it multiplies
  std::unique_ptr<product_plan> prepared_;
};

}  // namespace warploom
