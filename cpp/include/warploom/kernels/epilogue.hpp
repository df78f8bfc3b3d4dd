// What becomes of the sums of a product before they are stored: C = activation(alpha A B + beta C + bias).
#pragma once

namespace warploom {

enum class activation { none, relu };

struct epilogue {
  double alpha = 1;             // 0: A B does not count, even where it is NaN
  double beta = 0;              // 0: C is not read
  const void* bias = nullptr;   // where C is, of its value type, without gaps; null: none
  bool bias_is_column = false;  // a value for each row of C; otherwise one for each column, added to all rows
  activation then = activation::none;

  bool operator==(const epilogue&) const = default;
  bool changes_nothing() const { return alpha == 1 && beta == 0 && bias == nullptr && then == activation::none; }
};

}  // namespace warploom
