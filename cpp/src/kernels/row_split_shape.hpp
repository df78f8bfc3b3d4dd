// How row_split deals the threads of a row to columns and nonzeros; shared by the registry and the kernel.
#pragma once

#include <algorithm>
#include <bit>

#include "warploom/kernels/spmm.hpp"

namespace warploom {

// The threads that k columns keep busy side by side: a power of two, at most those of the row.
inline int row_split_useful_threads(const spmm_request& request) {
  const int columns = request.parameters.at("columns_per_thread");
  const std::int64_t needed = std::clamp<std::int64_t>((request.k + columns - 1) / columns, 1, 32);
  return std::min<int>(request.parameters.at("threads_per_row"), std::bit_ceil(static_cast<unsigned>(needed)));
}

// T: what the parameter says, or as many as are useful.
inline int row_split_column_threads(const spmm_request& request) {
  const int asked = request.parameters.at("column_threads");
  const int useful = row_split_useful_threads(request);
  return asked == 0 ? useful : std::min(asked, useful);
}

}  // namespace warploom
