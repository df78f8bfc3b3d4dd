#include "kernels/spmm/segmented.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/cpu/work_ranges.hpp"
#include "kernels/row_split/row_split.hpp"
#include "kernels/spmm/cpu_transposing_plan.hpp"
#include "kernels/spmm/row_tile.hpp"

namespace warploom {
namespace {

template <class Value>
using row_major_view = dense_tile_view<Value, layout::row_major>;

class segmented_plan final : public product_plan {
 public:
  explicit segmented_plan(segmented_csr matrix) : matrix_(std::move(matrix)) {
    segment_ranges_ = balance_work(matrix_.segments.size(), [&](std::int64_t s) { return matrix_.segments[s].length; });
    split_row_ranges_ =
        balance_work(matrix_.split_rows.size(), [&](std::int64_t s) { return matrix_.split_rows[s].count; });
  }

  void run(const dense_view& B, const dense_view& C, CUstream_st*) override {
    dispatch_wide_value_type(matrix_.dtype, [&]<class Value>(Value) {
      const dense_view partials = make_room_for_partials(C.num_cols);
      multiply_segments(row_major_view<Value>(B), row_major_view<Value>(C), row_major_view<Value>(partials),
                        C.num_cols);
      add_partials(row_major_view<Value>(partials), row_major_view<Value>(C), C.num_cols);
    });
  }

  std::size_t bytes() const override { return matrix_.bytes() + partials_.size(); }
  std::vector<value_array> value_arrays() override { return {{const_cast<void*>(matrix_.data), matrix_.nnz()}}; }

 private:
  dense_view make_room_for_partials(std::int64_t k) {
    partials_.resize(matrix_.num_partials * k * size_of(matrix_.dtype));
    return {partials_.data(), matrix_.num_partials, k, k};
  }

  template <class Value>
  void multiply_segments(row_major_view<Value> B, row_major_view<Value> C, row_major_view<Value> partials,
                         std::int64_t k) const {
    const auto* values = static_cast<const Value*>(matrix_.data);
    for_each_panel(segment_ranges_, k, row_split_panel_width,
                   [&](std::int64_t begin, std::int64_t end, std::int64_t first_column, std::int64_t columns) {
                     for (std::int64_t s = begin; s < end; ++s) {
                       const segment& part = matrix_.segments[s];
                       const sparse_row<Value> row{matrix_.indices + part.begin, values + part.begin, part.length};
                       const bool whole_row = part.partial < 0;
                       multiply_row<row_split_tile_width<Value>>(row, B, whole_row ? C : partials,
                                                                 whole_row ? part.row : part.partial, first_column,
                                                                 columns);
                     }
                   });
  }

  template <class Value>
  void add_partials(row_major_view<Value> partials, row_major_view<Value> C, std::int64_t k) const {
    for_each_panel(split_row_ranges_, k, row_split_panel_width,
                   [&](std::int64_t begin, std::int64_t end, std::int64_t first_column, std::int64_t columns) {
                     for (std::int64_t s = begin; s < end; ++s) {
                       const split_row& row = matrix_.split_rows[s];
                       Value* c = C.at(row.row, first_column);
                       for (std::int64_t j = 0; j < columns; ++j) c[j] = 0;
                       for (std::int32_t i = 0; i < row.count; ++i) {
                         const Value* partial = partials.at(row.first_partial + i, first_column);
                         for (std::int64_t j = 0; j < columns; ++j) c[j] += partial[j];
                       }
                     }
                   });
  }

  segmented_csr matrix_;
  work_ranges segment_ranges_;
  work_ranges split_row_ranges_;
  std::vector<std::byte> partials_;  // grows to the largest k that was run
};

}  // namespace

std::unique_ptr<product_plan> make_segmented_plan(segmented_csr matrix) {
  return std::make_unique<segmented_plan>(std::move(matrix));
}

std::unique_ptr<product_plan> make_segmented_plan_in_requested_order(const csr_view& matrix,
                                                                     const product_request& request) {
  // In the stored order: the ranges are already balanced, and neighbouring rows find their rows of B in the cache.
  constexpr bool longest_first = false;
  auto plan = make_segmented_plan(to_segmented(own_arrays(store_all_rows(matrix, request.perm)),
                                               request.parameters.at("segment_length"), longest_first));
  return in_requested_order(std::move(plan), matrix, request.order);
}

}  // namespace warploom
