#include "kernels/padded_csr/padded_csr.hpp"

#include <algorithm>
#include <cstring>

#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t alignment = 4;

std::int64_t rounded_up(std::int64_t length) { return (length + alignment - 1) / alignment * alignment; }

}  // namespace

std::size_t padded_csr::bytes() const {
  return row_ids.size() * sizeof(row_ids[0]) + indices.size() * sizeof(indices[0]) + data.size();
}

std::int64_t padded_width(const csr_pattern& matrix) {
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) longest = std::max(longest, matrix.row_length(row));
  return rounded_up(longest);
}

padded_csr to_padded(const row_storage& rows) {
  padded_csr result;
  result.num_rows = rows.num_rows;
  result.num_cols = rows.num_cols;
  result.dtype = rows.dtype;
  result.row_ids = rows.row_ids;
  std::int64_t longest = 0;
  for (std::int64_t p = 0; p < rows.num_rows; ++p) longest = std::max(longest, rows.indptr[p + 1] - rows.indptr[p]);
  const std::int64_t width = rounded_up(longest);
  result.width = static_cast<int>(width);
  const std::size_t value_size = size_of(rows.dtype);
  result.indices.assign(rows.num_rows * width, -1);
  result.data.resize(rows.num_rows * width * value_size);
  const auto* values = static_cast<const std::byte*>(rows.data);
  parallel_for(0, rows.num_rows, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t from = rows.indptr[p];
      const std::int64_t length = rows.indptr[p + 1] - from;
      if (length == 0) continue;
      std::memcpy(result.indices.data() + p * width, rows.indices + from, length * sizeof(std::int32_t));
      std::memcpy(result.data.data() + p * width * value_size, values + from * value_size, length * value_size);
    }
  });
  return result;
}

}  // namespace warploom
