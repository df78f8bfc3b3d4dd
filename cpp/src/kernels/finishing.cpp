#include "kernels/finishing.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t values_per_thread = 1 << 15;

// Sums are in float32 for values of two bytes.
template <class Value>
using sum_type = std::conditional_t<sizeof(Value) == 8, double, float>;

// Element (i, j) of a matrix is at i * row_step + j * column_step.
struct steps {
  std::int64_t row, column;

  steps(const dense_view& view, layout order)
      : row(order == layout::row_major ? view.leading_dimension : 1),
        column(order == layout::row_major ? 1 : view.leading_dimension) {}
};

// `product` may be C itself; null: none.
template <class Value>
void finish(const dense_view* product, const finished_product& finished) {
  using sum = sum_type<Value>;
  const dense_view& C = finished.C;
  const epilogue& by = finished.by;
  const auto alpha = static_cast<sum>(by.alpha), beta = static_cast<sum>(by.beta);
  const auto* const bias = static_cast<const Value*>(by.bias);
  const auto* const products = product ? static_cast<const Value*>(product->data) : nullptr;
  auto* const to = static_cast<Value*>(C.data);
  const steps of_C(C, finished.order), of_product(product ? *product : C, finished.order);
  const bool by_row = finished.order == layout::row_major;
  const std::int64_t lines = by_row ? C.num_rows : C.num_cols, length = by_row ? C.num_cols : C.num_rows;
  parallel_for(0, lines, values_per_thread / (length + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      for (std::int64_t place = 0; place < length; ++place) {
        const std::int64_t i = by_row ? line : place, j = by_row ? place : line;
        Value& c = to[i * of_C.row + j * of_C.column];
        sum result = 0;
        if (products) result = alpha * static_cast<sum>(products[i * of_product.row + j * of_product.column]);
        if (beta != 0) result += beta * static_cast<sum>(c);
        if (bias) result += static_cast<sum>(bias[by.bias_is_column ? i : j]);
        if (by.then == activation::relu && result < 0) result = 0;
        c = static_cast<Value>(result);
      }
    }
  });
}

}  // namespace

void run_then_finish_on_cpu(product_plan& plan, const dense_view& B, const finished_product& finished) {
  const dense_view& C = finished.C;
  dispatch_value_type(finished.dtype, [&]<class Value>(Value) {
    if (finished.by.alpha == 0) return finish<Value>(nullptr, finished);
    if (finished.by.beta == 0) {
      plan.run(B, C, nullptr);
      return finish<Value>(&C, finished);
    }
    std::vector<Value> room(C.num_rows * C.num_cols);
    const std::int64_t tight = finished.order == layout::row_major ? C.num_cols : C.num_rows;
    const dense_view product{room.data(), C.num_rows, C.num_cols, tight};
    plan.run(B, product, nullptr);
    finish<Value>(&product, finished);
  });
}

void dot_on_cpu(const dense_view& x, const dense_view& y, layout order, value_type dtype, void* dot) {
  constexpr std::int64_t at_once = 1 << 12;
  const std::int64_t step_x = steps(x, order).row, step_y = steps(y, order).row;
  std::vector<double> partial((x.num_rows + at_once - 1) / at_once);
  dispatch_value_type(dtype, [&]<class Value>(Value) {
    const auto* const from_x = static_cast<const Value*>(x.data);
    const auto* const from_y = static_cast<const Value*>(y.data);
    parallel_for(0, static_cast<std::int64_t>(partial.size()), values_per_thread / at_once,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t piece = begin; piece < end; ++piece) {
                     double sum = 0;
                     const std::int64_t last = std::min(x.num_rows, (piece + 1) * at_once);
                     for (std::int64_t i = piece * at_once; i < last; ++i) {
                       sum += static_cast<double>(static_cast<sum_type<Value>>(from_x[i * step_x])) *
                              static_cast<double>(static_cast<sum_type<Value>>(from_y[i * step_y]));
                     }
                     partial[piece] = sum;
                   }
                 });
    double sum = 0;
    for (const double part : partial) sum += part;
    *static_cast<sum_type<Value>*>(dot) = static_cast<sum_type<Value>>(sum);
  });
}

}  // namespace warploom
