// Rows cut into segments in GPU memory, with the workspace for the partial sums of cut rows.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device_csr.hpp"
#include "kernels/segmented_csr/device_segments.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::cuda {

// See segment_list.
struct segment_shape {
  int segment_length;
  bool longest_first;
  int joined = 0;

  segment_shape(int length, bool sorted, int rows_and_nonzeros)
      : segment_length(length), longest_first(sorted), joined(rows_and_nonzeros) {}
  explicit segment_shape(const product_request& request)
      : segment_length(request.parameters.at("segment_length")),
        longest_first(request.parameters.at("longest_first") != 0) {}
};

template <class Value>
class device_segments {
 public:
  // Room for products with `columns` columns, computed in `tiles` tiles of columns. Rows of more than `most_pieces` are
  // long rows, which add_long_rows() is to be called for after the product.
  device_segments(const device_csr& matrix, const product_request& request, std::int64_t columns, std::size_t tiles,
                  const device_allocator& allocate, int most_pieces = any_number_of_pieces)
      : device_segments(matrix, request, segment_shape(request), columns, tiles, allocate, most_pieces) {}
  device_segments(const device_csr& matrix, const product_request& request, const segment_shape& shape,
                  std::int64_t columns, std::size_t tiles, const device_allocator& allocate,
                  int most_pieces = any_number_of_pieces)
      : columns_(static_cast<int>(columns)),
        matrix_(matrix.kept(allocate)),
        most_pieces_(most_pieces),
        list_(matrix, request.row_ids.get(), shape.segment_length, shape.longest_first, allocate, shape.joined,
              most_pieces),
        workspace_(list_.split_of_partial.size() * columns_, allocate),
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
            columns_,
            most_pieces_,
            list_.long_rows.data(),
            static_cast<unsigned>(list_.num_long_rows)};
  }

  const device_csr& matrix() const { return *matrix_; }
  std::size_t num_partials() const { return list_.split_of_partial.size(); }
  int columns() const { return columns_; }
  std::size_t size() const { return list_.segments.size(); }
  value_array all_values() const { return matrix_->all_values(); }
  std::size_t bytes() const { return matrix_->bytes() + list_.bytes() + workspace_.bytes() + arrived_.bytes(); }

 private:
  int columns_;
  std::shared_ptr<const device_csr> matrix_;
  int most_pieces_;
  segment_list list_;
  device_array<sum_type_t<Value>> workspace_;
  device_array<unsigned> arrived_;
};

}  // namespace warploom::cuda
