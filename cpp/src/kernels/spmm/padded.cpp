#include "kernels/spmm/padded.hpp"

#include <algorithm>
#include <utility>

#include "kernels/cpu/work_ranges.hpp"
#include "kernels/row_split/row_split.hpp"
#include "kernels/spmm/row_tile.hpp"

namespace warploom {
namespace {

class padded_plan final : public product_plan {
 public:
  padded_plan(padded_csr matrix, layout order) : matrix_(std::move(matrix)), order_(order) {
    ranges_ = balance_work(matrix_.num_rows, [&](std::int64_t) { return matrix_.width; });
  }

  void run(const dense_view& B, const dense_view& C, CUstream_st*) override {
    dispatch_wide_value_type(matrix_.dtype, [&]<class Value>(Value) {
      if (order_ == layout::row_major) {
        multiply<row_split_tile_width<Value>, Value, layout::row_major>(B, C, row_split_panel_width);
      } else {
        constexpr int tile_width = 8;
        multiply<tile_width, Value, layout::column_major>(B, C, tile_width);
      }
    });
  }

  std::size_t bytes() const override { return matrix_.bytes(); }
  std::vector<value_array> value_arrays() override { return {{matrix_.data.data(), matrix_.places()}}; }

 private:
  template <int tile_width, class Value, layout order>
  void multiply(const dense_view& B, const dense_view& C, std::int64_t panel_width) const {
    const dense_tile_view<Value, order> from(B);
    const dense_tile_view<Value, order> to(C);
    for_each_panel(ranges_, C.num_cols, panel_width,
                   [&](std::int64_t begin, std::int64_t end, std::int64_t first_column, std::int64_t columns) {
                     for (std::int64_t p = begin; p < end; ++p) {
                       const std::int64_t row = matrix_.row_ids.empty() ? p : matrix_.row_ids[p];
                       multiply_row<tile_width>(unpadded_row<Value>(p), from, to, row, first_column, columns);
                     }
                   });
  }

  template <class Value>
  sparse_row<Value> unpadded_row(std::int64_t p) const {
    const std::int32_t* indices = matrix_.indices.data() + p * matrix_.width;
    const auto* values = reinterpret_cast<const Value*>(matrix_.data.data()) + p * matrix_.width;
    return {indices, values, std::find(indices, indices + matrix_.width, -1) - indices};
  }

  padded_csr matrix_;
  layout order_;
  work_ranges ranges_;
};

}  // namespace

std::unique_ptr<product_plan> make_padded_plan(padded_csr matrix, layout order) {
  return std::make_unique<padded_plan>(std::move(matrix), order);
}

}  // namespace warploom
