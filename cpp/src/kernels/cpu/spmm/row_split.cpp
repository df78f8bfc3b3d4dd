#include "kernels/cpu/spmm/row_split.hpp"

namespace warploom {

void row_split(const shared_out_rows& rows, const parameter_values&, const dense_view& B, const dense_view& C) {
  dispatch_wide_value_type(rows.rows.dtype, [&]<class Value>(Value) {
    multiply_rows<row_split_tile_width<Value>, Value, layout::row_major>(rows, row_split_panel_width, B, C);
  });
}

}  // namespace warploom
