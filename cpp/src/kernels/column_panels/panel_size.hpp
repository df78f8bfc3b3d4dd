// How wide the panels of a request are, on the CPU as on the GPU.
#pragma once

#include "warploom/formats/column_panels.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

inline std::int64_t requested_panel_bytes(const product_request& request) {
  return std::int64_t{request.parameters.at("panel_kb")} * 1024;
}

// Columns of a panel whose part of x takes at most `bytes`.
inline std::int32_t panel_columns(std::int64_t num_cols, value_type dtype, std::int64_t bytes) {
  return even_panel_columns(num_cols, bytes / static_cast<std::int64_t>(size_of(dtype)));
}

// Throws error_kind::parameter unless 1 <= panel_columns <= max_panel_columns.
void check_panel_columns(int panel_columns);

}  // namespace warploom
