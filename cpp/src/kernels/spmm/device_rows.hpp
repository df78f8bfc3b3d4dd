// Whole rows in GPU memory, as the SpMM kernels on CSR and DCSR take them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "device/device_csr.hpp"
#include "kernels/dcsr/device_dcsr.hpp"
#include "kernels/device/rows.cuh"
#include "warploom/kernels/product.hpp"

namespace warploom::cuda {

enum class stored_rows { all, nonempty };

template <class Value>
class device_rows {
 public:
  device_rows(const device_csr& matrix, stored_rows which, const product_request& request,
              const device_allocator& allocate)
      : matrix_(matrix.kept(allocate)), row_ids_(request.row_ids) {
    if (which == stored_rows::all) return;
    const matrix_summary& summary = matrix.summary();
    clears_first_ = 2 * summary.empty_rows > summary.num_rows;
    nonempty_.emplace(matrix, row_ids_.get(), !clears_first_, allocate);
    row_ids_ = nullptr;
  }

  // Rows a kernel has to write: those stored, and the empty ones unless C is cleared first.
  std::int64_t num_items() const {
    return nonempty_ ? nonempty_->count + static_cast<std::int64_t>(nonempty_->empty_rows.size()) : matrix_->num_rows();
  }

  // Where most rows are empty, zeroing all of C at once costs less than zeroing them one by one.
  void clear(const dense_view& C, layout order, cudaStream_t stream) const {
    if (!clears_first_) return;
    const std::size_t lines = order == layout::row_major ? C.num_rows : C.num_cols;
    const std::size_t length = (order == layout::row_major ? C.num_cols : C.num_rows) * sizeof(Value);
    const std::size_t pitch = C.leading_dimension * sizeof(Value);
    if (pitch == length || lines == 1) {
      WARPLOOM_CUDA_CHECK(cudaMemsetAsync(C.data, 0, lines * length, stream));
    } else {
      WARPLOOM_CUDA_CHECK(cudaMemset2DAsync(C.data, pitch, 0, length, lines, stream));
    }
  }

  rows_view<Value> view() const {
    const device_csr& A = *matrix_;
    if (!nonempty_) {
      return {A.num_rows(),     0, offsets(A.indptr32(), A.indptr64()), row_ids_.get(), nullptr, A.indices(),
              A.values<Value>()};
    }
    return {nonempty_->count,
            static_cast<std::int64_t>(nonempty_->empty_rows.size()),
            offsets(nonempty_->indptr32.data(), nonempty_->indptr64.data()),
            nonempty_->row_ids.data(),
            nonempty_->empty_rows.data(),
            A.indices(),
            A.values<Value>()};
  }

  value_array all_values() const { return matrix_->all_values(); }
  std::size_t bytes() const {
    const std::size_t ids = row_ids_ ? matrix_->num_rows() * sizeof(std::int32_t) : 0;
    return matrix_->bytes() + ids + (nonempty_ ? nonempty_->bytes() : 0);
  }

 private:
  static offsets_view offsets(const std::int32_t* narrow, const std::int64_t* wide) {
    return {wide ? static_cast<const void*>(wide) : narrow, wide != nullptr};
  }

  std::shared_ptr<const device_csr> matrix_;
  std::shared_ptr<const std::int32_t> row_ids_;
  std::optional<nonempty_rows> nonempty_;
  bool clears_first_ = false;
};

}  // namespace warploom::cuda
