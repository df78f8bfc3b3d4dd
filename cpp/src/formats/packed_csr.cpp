#include "warploom/formats/packed_csr.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "warploom/error.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

void check(const row_storage& rows, int entries_per_lane, int steps) {
  if (entries_per_lane < 1) {
    throw error(error_kind::parameter, "entries_per_lane", -1,
                "entries_per_lane must be at least 1, got " + std::to_string(entries_per_lane));
  }
  if (steps < 1)
    throw error(error_kind::parameter, "steps", -1, "steps must be at least 1, got " + std::to_string(steps));
  if (rows.num_rows >= std::int64_t{packed_target}) {
    throw error(error_kind::index_overflow, "matrix", -1,
                "format packed-csr holds fewer than 2^30 - 1 rows, got " + std::to_string(rows.num_rows));
  }
}

// The first lane of every stored row, and the number of lanes in all.
struct lane_layout {
  std::vector<std::int64_t> first;
  std::int64_t size = 0;
};

lane_layout lay_out(const row_storage& rows, std::int64_t entries_per_lane, std::int64_t lanes_per_warp) {
  lane_layout layout;
  layout.first.resize(rows.num_rows);
  std::int64_t next = 0;
  for (std::int64_t p = 0; p < rows.num_rows; ++p) {
    const std::int64_t lanes = (rows.indptr[p + 1] - rows.indptr[p] + entries_per_lane - 1) / entries_per_lane;
    const std::int64_t used = next % lanes_per_warp;
    if (used > 0 && used + lanes > lanes_per_warp) next += lanes_per_warp - used;
    layout.first[p] = next;
    next += lanes;
  }
  layout.size = (next + lanes_per_warp - 1) / lanes_per_warp * lanes_per_warp;
  return layout;
}

}  // namespace

std::size_t packed_csr::bytes() const {
  return lanes.size() * sizeof(lanes[0]) + indices.size() * sizeof(indices[0]) + data.size() +
         pieces.size() * sizeof(packed_piece) + empty_rows.size() * sizeof(empty_rows[0]);
}

packed_csr to_packed(const row_storage& rows, int entries_per_lane, int steps) {
  check(rows, entries_per_lane, steps);
  packed_csr result;
  result.num_rows = rows.num_rows;
  result.num_cols = rows.num_cols;
  result.dtype = rows.dtype;
  result.num_entries = rows.nnz();
  result.entries_per_lane = entries_per_lane;
  result.steps = steps;
  const std::int64_t lanes_per_warp = result.lanes_per_warp();
  const std::int64_t entries_per_warp = lanes_per_warp * entries_per_lane;
  const lane_layout layout = lay_out(rows, entries_per_lane, lanes_per_warp);

  // Cut rows in their order, so that their pieces are numbered the same whatever the number of threads.
  std::vector<std::int32_t> first_piece(rows.num_rows, -1);
  for (std::int64_t p = 0; p < rows.num_rows; ++p) {
    const std::int64_t length = rows.indptr[p + 1] - rows.indptr[p];
    const auto row = static_cast<std::int32_t>(rows.row_ids.empty() ? p : rows.row_ids[p]);
    if (length == 0) result.empty_rows.push_back(row);
    if (length <= entries_per_warp) continue;
    const auto count = static_cast<std::int32_t>((length + entries_per_warp - 1) / entries_per_warp);
    const auto first = static_cast<std::int32_t>(result.pieces.size());
    first_piece[p] = first;
    for (std::int32_t i = 0; i < count; ++i) result.pieces.push_back({row, first, count, i});
  }

  const std::size_t value_size = size_of(rows.dtype);
  result.lanes.assign(layout.size, packed_filler);
  result.indices.assign(layout.size * entries_per_lane, -1);
  result.data.resize(layout.size * entries_per_lane * value_size);
  const auto* values = static_cast<const std::byte*>(rows.data);
  parallel_for(0, rows.num_rows, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t from = rows.indptr[p];
      const std::int64_t length = rows.indptr[p + 1] - from;
      if (length == 0) continue;
      const std::int64_t first = layout.first[p];
      const std::int64_t lanes = (length + entries_per_lane - 1) / entries_per_lane;
      const auto row = static_cast<std::uint32_t>(rows.row_ids.empty() ? p : rows.row_ids[p]);
      for (std::int64_t i = 0; i < lanes; ++i) {
        const bool head = i % lanes_per_warp == 0;  // a row that is not cut has fewer lanes
        const std::uint32_t target =
            first_piece[p] < 0 ? row : packed_cut | static_cast<std::uint32_t>(first_piece[p] + i / lanes_per_warp);
        result.lanes[first + i] = (head ? packed_head : 0) | target;
      }
      std::memcpy(result.indices.data() + first * entries_per_lane, rows.indices + from, length * sizeof(std::int32_t));
      std::memcpy(result.data.data() + first * entries_per_lane * value_size, values + from * value_size,
                  length * value_size);
    }
  });
  return result;
}

csr_matrix to_csr(const packed_csr& matrix) {
  const auto row_of = [&](std::uint32_t lane) {
    const std::uint32_t target = lane & packed_target;
    return lane & packed_cut ? matrix.pieces[target].row : static_cast<std::int32_t>(target);
  };
  csr_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.indptr.assign(matrix.num_rows + 1, 0);
  const auto for_each_entry = [&](auto function) {
    for (std::size_t lane = 0; lane < matrix.lanes.size(); ++lane) {
      if (matrix.lanes[lane] == packed_filler) continue;
      for (int i = 0; i < matrix.entries_per_lane; ++i) {
        const std::int64_t place = static_cast<std::int64_t>(lane) * matrix.entries_per_lane + i;
        if (matrix.indices[place] >= 0) function(row_of(matrix.lanes[lane]), place);
      }
    }
  };
  for_each_entry([&](std::int32_t row, std::int64_t) { ++result.indptr[row + 1]; });
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) result.indptr[row + 1] += result.indptr[row];
  const std::size_t value_size = size_of(matrix.dtype);
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * value_size);
  std::vector<std::int64_t> next(result.indptr.begin(), result.indptr.end() - 1);
  for_each_entry([&](std::int32_t row, std::int64_t place) {
    const std::int64_t to = next[row]++;
    result.indices[to] = matrix.indices[place];
    std::memcpy(result.data.data() + to * value_size, matrix.data.data() + place * value_size, value_size);
  });
  return result;
}

}  // namespace warploom
