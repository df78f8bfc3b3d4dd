#include "kernels/segmented_csr/segmented_csr.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"

namespace warploom {
namespace {

void check_offsets_fit(std::int64_t nnz) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (nnz <= most) return;
  throw error(error_kind::index_overflow, "matrix", -1,
              "format segmented-csr holds at most " + std::to_string(most) + " nonzeros, got " + std::to_string(nnz));
}

void append_row(segmented_csr& result, std::int32_t row, std::int64_t begin, std::int64_t end) {
  // The partial sums of one row are added by one group of threads: a giant row gets longer segments instead of more.
  const std::int64_t most =
      std::max<std::int64_t>(result.segment_length, (end - begin + max_segments_per_row - 1) / max_segments_per_row);
  if (end - begin <= most) {
    result.segments.push_back({row, static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end - begin), -1});
    return;
  }
  const std::int64_t first_partial = result.num_partials;
  for (std::int64_t at = begin; at < end; at += most) {
    result.segments.push_back({row, static_cast<std::int32_t>(at), static_cast<std::int32_t>(std::min(most, end - at)),
                               static_cast<std::int32_t>(result.num_partials++)});
  }
  result.split_rows.push_back(
      {row, static_cast<std::int32_t>(first_partial), static_cast<std::int32_t>(result.num_partials - first_partial)});
}

void append_unstored_rows(segmented_csr& result, const row_storage& rows) {
  if (rows.stores_every_row()) return;
  std::vector<bool> stored(rows.num_rows, false);
  for (const std::int32_t row : rows.row_ids) stored[row] = true;
  for (std::int64_t row = 0; row < rows.num_rows; ++row) {
    if (!stored[row]) append_row(result, static_cast<std::int32_t>(row), 0, 0);
  }
}

// A counting sort: linear in the number of segments, and stable.
std::vector<segment> by_decreasing_length(const std::vector<segment>& segments, int longest) {
  std::vector<std::int64_t> next(longest + 2, 0);  // next[longest - length]: where that length continues
  for (const segment& s : segments) ++next[longest - s.length + 1];
  for (int i = 0; i <= longest; ++i) next[i + 1] += next[i];
  std::vector<segment> sorted(segments.size());
  for (const segment& s : segments) sorted[next[longest - s.length]++] = s;
  return sorted;
}

}  // namespace

std::size_t segmented_csr::bytes() const {
  return segments.size() * sizeof(segment) + split_rows.size() * sizeof(split_row) + (owner ? owner->bytes() : 0);
}

segmented_csr to_segmented(const row_storage& rows, int segment_length, bool longest_first) {
  if (segment_length < 1) {
    throw error(error_kind::parameter, "segment_length", -1,
                "segment_length must be at least 1, got " + std::to_string(segment_length));
  }
  check_offsets_fit(rows.nnz());
  segmented_csr result;
  result.num_rows = rows.num_rows;
  result.num_cols = rows.num_cols;
  result.dtype = rows.dtype;
  result.segment_length = segment_length;
  result.longest_first = longest_first;
  result.num_entries = rows.nnz();
  result.indices = rows.indices;
  result.data = rows.data;
  result.owner = rows.owner;
  result.segments.reserve(rows.num_rows + rows.nnz() / segment_length);
  for (std::int64_t p = 0; p < rows.num_stored_rows(); ++p) {
    const std::int32_t row = rows.row_ids.empty() ? static_cast<std::int32_t>(p) : rows.row_ids[p];
    append_row(result, row, rows.indptr[p], rows.indptr[p + 1]);
  }
  append_unstored_rows(result, rows);
  if (longest_first) {
    std::int32_t longest = 0;
    for (const segment& s : result.segments) longest = std::max(longest, s.length);
    result.segments = by_decreasing_length(result.segments, longest);
  }
  return result;
}

segmented_csr to_segmented(const csr_view& matrix, int segment_length, bool longest_first) {
  return to_segmented(own_arrays(store_all_rows(matrix, {})), segment_length, longest_first);
}

csr_matrix to_csr(const segmented_csr& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  std::vector<std::int64_t> begin(matrix.num_rows, matrix.nnz());  // the segments of a row follow each other
  for (const segment& s : matrix.segments) {
    result.indptr[s.row + 1] += s.length;
    begin[s.row] = std::min<std::int64_t>(begin[s.row], s.begin);
  }
  std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
  const std::size_t value_size = size_of(matrix.dtype);
  const auto* values = static_cast<const std::byte*>(matrix.data);
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * value_size);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    const std::int64_t to = result.indptr[row];
    const std::int64_t length = result.indptr[row + 1] - to;
    if (length == 0) continue;
    std::memcpy(result.indices.data() + to, matrix.indices + begin[row], length * sizeof(std::int32_t));
    std::memcpy(result.data.data() + to * value_size, values + begin[row] * value_size, length * value_size);
  }
  return result;
}

std::vector<format_field> segmented_csr::fields() const {
  return {
      {"segment_length", std::int64_t{segment_length}},
      {"longest_first", longest_first},
      {"segments", records_of<std::int32_t>(segments)},
      {"split_rows", records_of<std::int32_t>(split_rows)},
      {"indices", stored_array{indices, element_type::int32, num_entries, 0, nullptr}},
      {"data", stored_array{data, element_type_of(dtype), num_entries, 0, nullptr}},
  };
}

format_description segmented_csr_format() {
  return {
      .name = "segmented-csr",
      .options = {{"segment_length", 128, {1, 3, 128}}, {"longest_first", true, {false, true}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_segmented(matrix, options.integer("segment_length"), options.flag("longest_first")));
          },
  };
}

}  // namespace warploom
