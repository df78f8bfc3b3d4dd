// Epilogues of products: plans that apply them in the launch of the product, and the passes over C that do the same for
// all others.
#pragma once

#include "warploom/kernels/epilogue.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// What a plan can be beside a product_plan.
class finishing_plan {
 public:
  virtual ~finishing_plan() = default;
  // Enqueues C = activation(alpha A B + beta C + bias) as one launch for all of C, or does nothing and returns false.
  // alpha is not 0.
  virtual bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) = 0;
  // Enqueues y = A x and *dot = x . y as one launch, or does nothing and returns false. A is square. The sum is taken
  // in float64, always in the same order; `dot` is on the device, a double for values of float64 and else a float.
  virtual bool run_with_dot(const dense_view&, const dense_view&, void* /*dot*/, CUstream_st*) { return false; }
};

// C = activation(alpha C + beta C' + bias) where C is a product, and C' what is in C before.
struct finished_product {
  dense_view C;
  layout order;
  value_type dtype;
  const epilogue& by;
};

// The product and then a pass over C, by way of memory for the product if C is read. alpha is 0: the pass alone.
void run_then_finish_on_cpu(product_plan& plan, const dense_view& B, const finished_product& finished);
void run_then_finish_on_gpu(product_plan& plan, const dense_view& B, const finished_product& finished,
                            CUstream_st* stream);

// *dot = x . y for views with one column, summed in float64 in an order that depends on nothing but the size.
void dot_on_cpu(const dense_view& x, const dense_view& y, layout order, value_type dtype, void* dot);
void dot_on_gpu(const dense_view& x, const dense_view& y, layout order, value_type dtype, void* dot,
                CUstream_st* stream);

}  // namespace warploom
