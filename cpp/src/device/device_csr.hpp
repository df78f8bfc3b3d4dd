// A CSR matrix in GPU memory, of any value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "device/runtime.hpp"
#include "warploom/csr_view.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

class device_csr {
 public:
  device_csr(const csr_view& matrix, const device_allocator& allocate)
      : num_rows_(matrix.num_rows),
        num_cols_(matrix.num_cols),
        nnz_(matrix.nnz()),
        dtype_(matrix.dtype),
        indices_(cuda::upload(matrix.indices, nnz_, allocate)),
        data_(cuda::upload(static_cast<const std::byte*>(matrix.data), nnz_ * size_of(dtype_), allocate)) {
    if (nnz_ <= std::numeric_limits<std::int32_t>::max()) {
      const std::vector<std::int32_t> narrow(matrix.indptr, matrix.indptr + num_rows_ + 1);
      indptr32_ = cuda::upload(narrow.data(), narrow.size(), allocate);
    } else {
      indptr64_ = cuda::upload(matrix.indptr, num_rows_ + 1, allocate);
    }
  }

  // A copy within the memory of the GPU.
  device_csr(const device_csr_view& matrix, const device_allocator& allocate)
      : num_rows_(matrix.num_rows),
        num_cols_(matrix.num_cols),
        nnz_(matrix.nnz),
        dtype_(matrix.dtype),
        indptr32_(cuda::duplicate(matrix.indptr, matrix.num_rows + 1, allocate)),
        indices_(cuda::duplicate(matrix.indices, matrix.nnz, allocate)),
        data_(cuda::duplicate(static_cast<const std::byte*>(matrix.data), matrix.nnz * size_of(matrix.dtype),
                              allocate)) {}

  std::int64_t num_rows() const { return num_rows_; }
  std::int64_t num_cols() const { return num_cols_; }
  std::int64_t nnz() const { return nnz_; }
  value_type dtype() const { return dtype_; }
  // Row offsets are 64-bit from 2^31 nonzeros on, and 32-bit below.
  bool wide() const { return indptr64_.size() > 0; }
  const std::int32_t* indptr32() const { return indptr32_.data(); }
  const std::int64_t* indptr64() const { return indptr64_.data(); }
  const std::int32_t* indices() const { return indices_.data(); }
  template <class Value>
  const Value* values() const {
    static_assert(sizeof(Value) <= 8);
    return reinterpret_cast<const Value*>(data_.data());
  }
  std::size_t bytes() const { return indptr32_.bytes() + indptr64_.bytes() + indices_.bytes() + data_.bytes(); }

 private:
  std::int64_t num_rows_;
  std::int64_t num_cols_;
  std::int64_t nnz_;
  value_type dtype_;
  cuda::device_array<std::int32_t> indptr32_;
  cuda::device_array<std::int64_t> indptr64_;
  cuda::device_array<std::int32_t> indices_;
  cuda::device_array<std::byte> data_;
};

namespace cuda {

// The matrix a CSR kernel reads: the resident one, or one with its rows moved.
struct csr_rows {
  std::shared_ptr<const device_csr> matrix;
  device_array<std::int32_t> row_ids;  // stored row p produces row row_ids[p] of y; empty: row p

  csr_rows(const csr_view& given, const product_request& request, const device_allocator& allocate);
  std::size_t bytes() const { return matrix->bytes() + row_ids.bytes(); }
};

}  // namespace cuda
}  // namespace warploom
