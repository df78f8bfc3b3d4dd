// What the CPU plans have in common: a matrix in some format, and the dispatch on its value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cpu/work_ranges.hpp"
#include "kernels/spmv_plan.hpp"
#include "warploom/csr_view.hpp"

namespace warploom {

// Plan derives from this and has `template <class Value> void multiply_values(const Value* x, Value* y) const`.
template <class Plan, class Matrix>
class cpu_format_plan : public spmv_plan {
 public:
  explicit cpu_format_plan(Matrix matrix) : matrix_(std::move(matrix)) {}

  void multiply(const void* x, void* y, CUstream_st*) final {
    dispatch_value_type(matrix_.dtype, [&]<class Value>(Value) {
      static_cast<const Plan&>(*this).multiply_values(static_cast<const Value*>(x), static_cast<Value*>(y));
    });
  }

  std::size_t bytes() const override { return matrix_.bytes(); }

  std::vector<value_array> value_arrays() override {
    if constexpr (requires { matrix_.data.data(); }) {
      return {{matrix_.data.data(), static_cast<std::int64_t>(matrix_.data.size() / size_of(matrix_.dtype))}};
    } else {
      return {};
    }
  }

 protected:
  Matrix matrix_;
};

// The same for formats whose items (rows, slices, ...) are cut into ranges of about equal work.
template <class Plan, class Matrix>
class cpu_balanced_plan : public cpu_format_plan<Plan, Matrix> {
 public:
  using cpu_format_plan<Plan, Matrix>::cpu_format_plan;

  std::size_t bytes() const override {
    return this->matrix_.bytes() + ranges_.boundaries.size() * sizeof(ranges_.boundaries[0]);
  }

 protected:
  // Calls multiply_items(first item, last item + 1) for every range, in parallel.
  template <class Function>
  void for_each_range(Function multiply_items) const {
    for_each_panel(ranges_, 1, 1, [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t) {
      multiply_items(begin, end);
    });
  }

  work_ranges ranges_;
};

}  // namespace warploom
