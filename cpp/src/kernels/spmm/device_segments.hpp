// Rows cut into segments in GPU memory, with the workspace for the partial sums of cut rows.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device_csr.hpp"
#include "kernels/segmented_csr/device_segments.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::cuda {

// As a request has them. Rows of more than `most_pieces` are long rows.
inline segment_shape requested_segments(const product_request& request, int most_pieces = any_number_of_pieces) {
  return {.segment_length = request.parameters.at("segment_length"),
          .longest_first = request.parameters.at("longest_first") != 0,
          .most_pieces = most_pieces};
}

// The same with pieces in the order of columns, if `by_column`. All rows that are cut are long rows then: their pieces
// are not done at about the same time, and no group of threads adds them up.
inline segment_shape segments_by_column(segment_shape shape, bool by_column, int most_pieces) {
  shape.by_column = by_column;
  shape.most_pieces = by_column ? 1 : most_pieces;
  shape.most_pieces_of_warp = most_pieces;
  return shape;
}

template <class Value>
class device_segments {
 public:
  // Room for products with `columns` columns, computed in `tiles` tiles of columns. There may be long rows, which
  // add_long_rows() is to be called for after the product.
  device_segments(const device_csr& matrix, const product_request& request, const segment_shape& shape,
                  std::int64_t columns, std::size_t tiles, const device_allocator& allocate)
      : columns_(static_cast<int>(columns)),
        matrix_(matrix.kept(allocate)),
        most_pieces_(shape.most_pieces),
        list_(matrix, request.row_ids.get(), shape, allocate),
        workspace_(list_.split_of_partial.size() * stored_columns(columns_), allocate),
        arrived_(list_.splits.size() * tiles, allocate) {
    if (arrived_.size() > 0) {
      WARPLOOM_CUDA_CHECK(cudaMemsetAsync(arrived_.data(), 0, arrived_.bytes(), matrix.stream()));
    }
  }

  segments_view<Value> view() const {
    return {static_cast<unsigned>(size()),
            list_.segments.data(),
            matrix_->indices(),
            matrix_->values<Value>(),
            list_.split_of_partial.data(),
            list_.splits.data(),
            workspace_.data(),
            arrived_.data(),
            stored_columns(columns_),
            most_pieces_,
            list_.long_rows.data(),
            list_.num_long_rows,
            list_.long_rows.data() + (list_.long_rows.size() - list_.num_rows_of_warps),
            list_.num_rows_of_warps};
  }

  const device_csr& matrix() const { return *matrix_; }
  std::size_t num_partials() const { return list_.split_of_partial.size(); }
  int columns() const { return columns_; }
  std::size_t size() const { return list_.segments.size(); }
  value_array all_values() const { return matrix_->all_values(); }
  std::size_t bytes() const { return matrix_->bytes() + list_.bytes() + workspace_.bytes() + arrived_.bytes(); }

 private:
  // So that every thread has its columns of a partial sum on a multiple of their size.
  static int stored_columns(int columns) { return (columns + 7) / 8 * 8; }

  int columns_;
  std::shared_ptr<const device_csr> matrix_;
  int most_pieces_;
  segment_list list_;
  device_array<sum_type_t<Value>> workspace_;
  device_array<unsigned> arrived_;
};

}  // namespace warploom::cuda
