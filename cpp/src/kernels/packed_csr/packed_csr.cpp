#include "kernels/packed_csr/packed_csr.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

void check_small(const char* argument, int value) {
  if (value == 1 || value == 2 || value == 4) return;
  throw error(error_kind::parameter, argument, -1,
              std::string(argument) + " must be 1, 2 or 4, got " + std::to_string(value));
}

void check(const row_storage& rows, int entries_per_lane, int steps) {
  check_small("entries_per_lane", entries_per_lane);
  check_small("steps", steps);
  if (rows.num_rows >= std::int64_t{packed_target}) {
    throw error(error_kind::index_overflow, "matrix", -1,
                "format packed-csr holds fewer than 2^30 - 1 rows, got " + std::to_string(rows.num_rows));
  }
}

// Where every stored row begins, in lanes, and how many lanes there are.
class lane_layout {
 public:
  std::vector<std::int64_t> first;
  std::vector<std::int32_t> cut_rows;  // those that take several warps, by decreasing number of warps
  std::int64_t size = 0;

  lane_layout(const row_storage& rows, std::int64_t entries_per_lane, std::int64_t lanes_per_warp)
      : first(rows.num_rows), lanes_per_warp_(lanes_per_warp) {
    const auto lanes_of = [&](std::int64_t p) {
      return (rows.indptr[p + 1] - rows.indptr[p] + entries_per_lane - 1) / entries_per_lane;
    };
    for (std::int64_t p = 0; p < rows.num_rows; ++p) {
      if (lanes_of(p) > lanes_per_warp) cut_rows.push_back(static_cast<std::int32_t>(p));
    }
    std::stable_sort(cut_rows.begin(), cut_rows.end(),
                     [&](std::int32_t a, std::int32_t b) { return warps_of(lanes_of(a)) > warps_of(lanes_of(b)); });
    for (const std::int32_t p : cut_rows) first[p] = place_cut_row(lanes_of(p));
    std::size_t gap = 0;
    for (std::int64_t p = 0; p < rows.num_rows; ++p) {
      const std::int64_t lanes = lanes_of(p);
      if (lanes <= lanes_per_warp) first[p] = place_short_row(lanes, gap);
    }
    size = warps_of(size) * lanes_per_warp_;
  }

  std::int64_t warps_of(std::int64_t lanes) const { return (lanes + lanes_per_warp_ - 1) / lanes_per_warp_; }

 private:
  struct gap_in_warp {
    std::int64_t first;
    std::int64_t count;
  };

  // `size` is at the beginning of a warp before and after.
  std::int64_t place_cut_row(std::int64_t lanes) {
    const std::int64_t warps = warps_of(lanes);
    std::int64_t warp = size / lanes_per_warp_;
    const std::int64_t used = warp % packed_warps_per_block;
    if (used > 0 && used + warps > packed_warps_per_block) {  // begin the next block
      for (std::int64_t i = used; i < packed_warps_per_block; ++i) {
        gaps_.push_back({warp++ * lanes_per_warp_, lanes_per_warp_});
      }
    }
    const std::int64_t begin = warp * lanes_per_warp_;
    size = (warp + warps) * lanes_per_warp_;
    if (begin + lanes < size) gaps_.push_back({begin + lanes, size - begin - lanes});
    return begin;
  }

  std::int64_t place_short_row(std::int64_t lanes, std::size_t& gap) {
    while (gap < gaps_.size() && gaps_[gap].count < lanes) ++gap;
    if (gap < gaps_.size()) {
      const std::int64_t begin = gaps_[gap].first;
      gaps_[gap].first += lanes;
      gaps_[gap].count -= lanes;
      return begin;
    }
    const std::int64_t used = size % lanes_per_warp_;
    if (used > 0 && used + lanes > lanes_per_warp_) size += lanes_per_warp_ - used;
    const std::int64_t begin = size;
    size += lanes;
    return begin;
  }

  std::int64_t lanes_per_warp_;
  std::vector<gap_in_warp> gaps_;  // lanes that cut rows leave free
};

// The segments of the cut rows, and the first one of each stored row (-1: not cut).
std::vector<std::int32_t> append_segments(packed_csr& result, const row_storage& rows, const lane_layout& layout) {
  std::vector<std::int32_t> first_segment(rows.num_rows, -1);
  std::int32_t num_partials = 0;
  for (const std::int32_t p : layout.cut_rows) {
    first_segment[p] = static_cast<std::int32_t>(result.pieces.size());
    const std::int64_t lanes =
        (rows.indptr[p + 1] - rows.indptr[p] + result.entries_per_lane - 1) / result.entries_per_lane;
    const std::int64_t begin = layout.first[p] / result.lanes_per_warp();
    const std::int64_t end = begin + layout.warps_of(lanes);
    const std::int64_t first_block = begin / packed_warps_per_block;
    const auto num_blocks = static_cast<std::int32_t>((end - 1) / packed_warps_per_block - first_block + 1);
    const std::int32_t row = rows.row_ids.empty() ? p : rows.row_ids[p];
    for (std::int64_t warp = begin; warp < end; ++warp) {
      const std::int64_t block = warp / packed_warps_per_block;
      const std::int64_t first_warp = std::max(begin, block * packed_warps_per_block) % packed_warps_per_block;
      const bool last = warp + 1 == end || (warp + 1) % packed_warps_per_block == 0;
      const auto place = static_cast<std::uint32_t>((block - first_block) * 256 + first_warp * 16 + (last ? 1 : 0));
      result.pieces.push_back({row, num_partials, num_blocks, place});
    }
    if (num_blocks > 1) num_partials += num_blocks;
  }
  result.num_partials = num_partials;
  return first_segment;
}

}  // namespace

std::size_t packed_csr::bytes() const {
  return lanes.size() * sizeof(lanes[0]) + indices.size() * sizeof(indices[0]) + data.size() +
         pieces.size() * sizeof(packed_segment) + empty_rows.size() * sizeof(empty_rows[0]);
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
  const lane_layout layout(rows, entries_per_lane, lanes_per_warp);
  const std::vector<std::int32_t> first_segment = append_segments(result, rows, layout);
  for (std::int64_t p = 0; p < rows.num_rows; ++p) {
    if (rows.indptr[p + 1] > rows.indptr[p]) continue;
    result.empty_rows.push_back(rows.row_ids.empty() ? static_cast<std::int32_t>(p) : rows.row_ids[p]);
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
            first_segment[p] < 0 ? row : packed_cut | static_cast<std::uint32_t>(first_segment[p] + i / lanes_per_warp);
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
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
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

std::vector<format_field> packed_csr::fields() const {
  return {
      {"entries_per_lane", std::int64_t{entries_per_lane}},
      {"steps", std::int64_t{steps}},
      {"lanes", array_of(lanes)},
      {"indices", array_of(indices)},
      {"data", array_of(data, dtype)},
      {"pieces", records_of<std::int32_t>(pieces)},
      {"empty_rows", array_of(empty_rows)},
  };
}

format_description packed_csr_format() {
  return {
      .name = "packed-csr",
      .options = {{"entries_per_lane", 4, {1, 2, 4}}, {"steps", 1, {1, 2, 4}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(
                to_packed(store_all_rows(matrix, {}), options.integer("entries_per_lane"), options.integer("steps")));
          },
  };
}

}  // namespace warploom
