#include "kernels/padded_csr/padded_csr.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/row_places.hpp"
#include "warploom/formats/ell.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t alignment = 4;

}  // namespace

std::size_t padded_csr::bytes() const {
  return row_ids.size() * sizeof(row_ids[0]) + indices.size() * sizeof(indices[0]) + data.size();
}

std::int64_t padded_width(std::int64_t longest_row) { return (longest_row + alignment - 1) / alignment * alignment; }

padded_csr to_padded(const row_storage& rows) {
  padded_csr result;
  result.num_rows = rows.num_rows;
  result.num_cols = rows.num_cols;
  result.dtype = rows.dtype;
  result.row_ids = rows.row_ids;
  result.num_entries = rows.nnz();
  std::int64_t longest = 0;
  for (std::int64_t p = 0; p < rows.num_rows; ++p) longest = std::max(longest, rows.indptr[p + 1] - rows.indptr[p]);
  const std::int64_t width = padded_width(longest);
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

padded_csr to_padded(const csr_view& matrix, std::optional<std::int64_t> max_width) {
  check_width(matrix, padded_width(longest_row(matrix)), max_width, "padded-csr");
  return to_padded(store_all_rows(matrix, {}));
}

csr_matrix to_csr(const padded_csr& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  const auto row_of = [&](std::int64_t p) { return matrix.row_ids.empty() ? p : matrix.row_ids[p]; };
  const std::int64_t width = matrix.width;
  parallel_for(0, matrix.num_rows, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      result.indptr[row_of(p) + 1] = entries_before_padding(matrix.indices.data() + p * width, width, 1);
    }
  });
  std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
  const std::size_t value_size = size_of(matrix.dtype);
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * value_size);
  parallel_for(0, matrix.num_rows, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t to = result.indptr[row_of(p)];
      const std::int64_t length = result.indptr[row_of(p) + 1] - to;
      if (length == 0) continue;
      std::memcpy(result.indices.data() + to, matrix.indices.data() + p * width, length * sizeof(std::int32_t));
      std::memcpy(result.data.data() + to * value_size, matrix.data.data() + p * width * value_size,
                  length * value_size);
    }
  });
  return result;
}

std::vector<format_field> padded_csr::fields() const {
  return {
      {"width", std::int64_t{width}},
      {"indices", array_of(indices)},
      {"data", array_of(data, dtype)},
  };
}

format_description padded_csr_format() {
  return {
      .name = "padded-csr",
      .options = {{"max_width", {}, {2000}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_padded(matrix, options.optional_integer("max_width")));
          },
  };
}

}  // namespace warploom
