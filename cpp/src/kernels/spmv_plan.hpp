// What every SpMV plan is: a product with one column.
#pragma once

#include "warploom/kernels/product.hpp"

namespace warploom {

class spmv_plan : public product_plan {
 public:
  // x has n and y has m consecutive entries of the plan's value type.
  virtual void multiply(const void* x, void* y, CUstream_st* stream) = 0;

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) final { multiply(B.data, C.data, stream); }
};

}  // namespace warploom
