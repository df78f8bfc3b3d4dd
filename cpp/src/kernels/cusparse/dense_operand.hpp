// A dense matrix as cuSPARSE sees it.
#pragma once

#include "kernels/cusparse/api.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::cuda::cusparse {

class dense_operand {
 public:
  dense_operand(const dense_view& matrix, layout order, cudaDataType type) {
    WARPLOOM_CUSPARSE_CHECK(CreateDnMat, &handle_, matrix.num_rows, matrix.num_cols, matrix.leading_dimension,
                            matrix.data, type, order == layout::row_major ? row_major : column_major);
  }
  ~dense_operand() { api().DestroyDnMat(handle_); }
  dense_operand(const dense_operand&) = delete;
  dense_operand& operator=(const dense_operand&) = delete;
  operator dense_descriptor() const { return handle_; }

 private:
  dense_descriptor handle_ = nullptr;
};

// The library takes pointers to mutable arrays but does not write to them.
template <class Value>
void* pointer(const Value* array) {
  return const_cast<Value*>(array);
}

}  // namespace warploom::cuda::cusparse
