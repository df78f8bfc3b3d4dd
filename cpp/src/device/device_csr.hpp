// A CSR matrix in GPU memory, of any value type: what every plan on a GPU is prepared from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device/runtime.hpp"
#include "features/sets.hpp"
#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

class device_csr : public std::enable_shared_from_this<device_csr> {
 public:
  // Arrays of its own that the caller fills. Offsets are 32-bit.
  device_csr(const matrix_summary& summary, const device_allocator& allocate);
  // The pattern of another one that has arrays of its own, which are shared, with values that the caller fills.
  device_csr(const device_csr& pattern, const device_allocator& allocate);
  // An upload. `matrix` is to live as long.
  device_csr(const csr_view& matrix, const device_allocator& allocate);
  // A view of arrays that are somebody else's, once they are known to be sound; see view_csr.
  device_csr(const device_csr_view& matrix, const spmv_statistics& statistics, const matrix_summary& summary,
             cuda::device_array<std::int32_t> narrow_indptr, cuda::device_array<std::int32_t> narrow_indices);

  std::int64_t num_rows() const { return summary_.num_rows; }
  std::int64_t num_cols() const { return summary_.num_cols; }
  std::int64_t nnz() const { return summary_.nnz; }
  value_type dtype() const { return summary_.dtype; }
  const matrix_summary& summary() const { return summary_; }
  // Row offsets are 64-bit from 2^31 nonzeros on, and 32-bit below.
  bool wide() const { return indptr64_ != nullptr; }
  const std::int32_t* indptr32() const { return indptr32_; }
  const std::int64_t* indptr64() const { return indptr64_; }
  const std::int32_t* indices() const { return indices_; }
  const void* data() const { return data_; }
  template <class Value>
  const Value* values() const {
    static_assert(sizeof(Value) <= 8);
    return static_cast<const Value*>(data_);
  }
  // The stream that whatever is made from the matrix is to be enqueued on.
  cudaStream_t stream() const { return stream_; }
  std::size_t bytes() const;  // of the arrays that are its own
  // The values of a matrix whose arrays are its own.
  value_array all_values() const { return {own_data_.data(), nnz()}; }

  // The distribution of the lengths of rows.
  const spmv_statistics& statistics() const;
  // The matrix in host memory, where it is copied when it is first asked for.
  const csr_view& host() const;
  // The same matrix with arrays of its own, for plans that keep it: copied once for all of them.
  std::shared_ptr<const device_csr> kept(const device_allocator& allocate) const;

  // This one, unless the arrays are somebody else's.
  std::shared_ptr<const device_csr> shared_if_own() const { return borrows_ ? nullptr : shared_from_this(); }
  // The row offsets in host memory.
  std::vector<std::int64_t> host_offsets() const;

  // Of a matrix that is being made.
  std::int32_t* indptr_to_fill() const { return own_indptr32_.data(); }
  std::int32_t* indices_to_fill() const { return own_indices_.data(); }
  std::byte* data_to_fill() const { return own_data_.data(); }
  void order_on(cudaStream_t stream) { stream_ = stream; }

 private:
  matrix_summary summary_;
  cudaStream_t stream_ = nullptr;
  const std::int32_t* indptr32_ = nullptr;
  const std::int64_t* indptr64_ = nullptr;
  const std::int32_t* indices_ = nullptr;
  const void* data_ = nullptr;
  bool borrows_ = false;
  cuda::device_array<std::int32_t> own_indptr32_;
  cuda::device_array<std::int64_t> own_indptr64_;
  cuda::device_array<std::int32_t> own_indices_;
  cuda::device_array<std::byte> own_data_;

  mutable std::mutex making_;
  mutable std::unique_ptr<const spmv_statistics> statistics_;
  mutable std::unique_ptr<const csr_matrix> downloaded_;
  mutable std::unique_ptr<const csr_view> host_;
  mutable std::shared_ptr<const device_csr> kept_;
};

// Some rows of a matrix, on the same device: row p of the result is row rows[p]. `summary` is that of the result.
std::shared_ptr<const device_csr> take_rows(const device_csr& matrix, const std::int32_t* rows,
                                            const matrix_summary& summary, const device_allocator& allocate);

// What rows of a format with an order of its own produce: position p holds row outer[inner[p]]. Either may be null.
device_permutation compose(const device_permutation& outer, const std::int32_t* inner, const device_csr& of,
                           const device_allocator& allocate);

namespace cuda {

// The row of every nonzero.
device_array<std::int32_t> row_indices_of(const device_csr& matrix, const device_allocator& allocate);

// The matrix a CSR kernel reads, kept for as long as the plan lives.
struct csr_rows {
  std::shared_ptr<const device_csr> matrix;
  std::shared_ptr<const std::int32_t> row_ids;  // stored row p produces row row_ids[p] of y; null: row p

  csr_rows(const device_csr& given, const product_request& request, const device_allocator& allocate)
      : matrix(given.kept(allocate)), row_ids(request.row_ids) {}
  std::size_t bytes() const { return matrix->bytes() + (row_ids ? matrix->num_rows() * sizeof(std::int32_t) : 0); }
};

}  // namespace cuda
}  // namespace warploom
