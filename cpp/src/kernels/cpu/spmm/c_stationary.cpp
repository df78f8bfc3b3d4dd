#include "kernels/cpu/spmm/c_stationary.hpp"

namespace warploom {
namespace {

template <class Value>
void run(const shared_out_rows& rows, int tile_width, const dense_view& B, const dense_view& C) {
  constexpr layout order = layout::column_major;
  switch (tile_width) {
    case 1:
      return multiply_rows<1, Value, order>(rows, 1, B, C);
    case 2:
      return multiply_rows<2, Value, order>(rows, 2, B, C);
    case 4:
      return multiply_rows<4, Value, order>(rows, 4, B, C);
    case 8:
      return multiply_rows<8, Value, order>(rows, 8, B, C);
    default:
      return multiply_rows<16, Value, order>(rows, tile_width, B, C);
  }
}

}  // namespace

void c_stationary(const shared_out_rows& rows, const parameter_values& parameters, const dense_view& B,
                  const dense_view& C) {
  const int tile_width = parameters.at("tile_width");
  dispatch_wide_value_type(rows.rows.dtype, [&]<class Value>(Value) { run<Value>(rows, tile_width, B, C); });
}

}  // namespace warploom
