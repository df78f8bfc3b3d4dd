#include "kernels/segmented_csr/segmented_csr.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "warploom/error.hpp"

namespace warploom {
namespace {

constexpr std::int64_t most_segments_per_row = 1024;

void check_offsets_fit(std::int64_t nnz) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (nnz <= most) return;
  throw error(error_kind::index_overflow, "matrix", -1,
              "format segmented-csr holds at most " + std::to_string(most) + " nonzeros, got " + std::to_string(nnz));
}

void append_row(segmented_csr& result, std::int32_t row, std::int64_t begin, std::int64_t end) {
  // The partial sums of one row are added by one group of threads: a giant row gets longer segments instead of more.
  const std::int64_t most =
      std::max<std::int64_t>(result.segment_length, (end - begin + most_segments_per_row - 1) / most_segments_per_row);
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

}  // namespace warploom
