#include "kernels/packed_csr/packed_csr.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "device/cuda_function.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

convert_on_gpu_function convert_to_packed_csr_on_gpu;

namespace {

void check_small(const char* argument, int value) {
  if (value == 1 || value == 2 || value == 4) return;
  throw error(error_kind::parameter, argument, -1,
              std::string(argument) + " must be 1, 2 or 4, got " + std::to_string(value));
}

// Where every stored row begins, in lanes, and how many lanes there are. kernels/packed_csr/device_packed.cu finds the
// same places in parallel.
class lane_layout {
 public:
  std::vector<std::int64_t> first;
  std::vector<std::int32_t> cut_rows;  // those that take several warps, by decreasing number of warps
  std::int64_t size = 0;

  lane_layout(const row_storage& rows, std::int64_t entries_per_lane, std::int64_t lanes_per_warp)
      : first(rows.num_rows), lanes_(rows.num_rows), lanes_per_warp_(lanes_per_warp) {
    for (std::int64_t p = 0; p < rows.num_rows; ++p) {
      lanes_[p] = (rows.indptr[p + 1] - rows.indptr[p] + entries_per_lane - 1) / entries_per_lane;
      if (lanes_[p] > lanes_per_warp) cut_rows.push_back(static_cast<std::int32_t>(p));
    }
    std::stable_sort(cut_rows.begin(), cut_rows.end(),
                     [&](std::int32_t a, std::int32_t b) { return warps_of(a) > warps_of(b); });
    const std::int64_t cut_warps = place_cut_rows();
    const std::vector<std::int64_t> free_before = find_free_lanes(cut_warps);
    const std::vector<std::int32_t> others = place_in_free_lanes(free_before);
    size = place_in_tiles(others, cut_warps) * lanes_per_warp;
  }

  std::int64_t warps_of(std::int64_t p) const { return (lanes_[p] + lanes_per_warp_ - 1) / lanes_per_warp_; }

 private:
  // Rows of at most a block lie side by side in blocks of their number of warps. Returns the end of the last one.
  std::int64_t place_cut_rows() {
    std::int64_t end = 0;         // in warps
    std::int64_t next_block = 0;  // behind all rows so far
    std::int64_t class_block = 0, class_size = 0, class_warps = 0;
    for (const std::int32_t p : cut_rows) {
      const std::int64_t warps = warps_of(p);
      std::int64_t begin = next_block * packed_warps_per_block;
      if (warps > packed_warps_per_block) {
        next_block += (warps + packed_warps_per_block - 1) / packed_warps_per_block;
      } else {
        if (warps != class_warps) {
          class_block = next_block;
          class_size = 0;
          class_warps = warps;
        }
        const std::int64_t per_block = packed_warps_per_block / warps;
        const std::int64_t block = class_block + class_size / per_block;
        begin = block * packed_warps_per_block + class_size % per_block * warps;
        next_block = block + 1;
        ++class_size;
      }
      first[p] = begin * lanes_per_warp_;
      end = begin + warps;
    }
    return end;
  }

  // [cut_warps + 1]: the lanes in earlier warps that cut rows leave free. Those of a warp are its last ones.
  std::vector<std::int64_t> find_free_lanes(std::int64_t cut_warps) const {
    std::vector<std::int64_t> free(cut_warps + 1, lanes_per_warp_);
    for (const std::int32_t p : cut_rows) {
      const std::int64_t begin = first[p] / lanes_per_warp_;
      const std::int64_t end = begin + warps_of(p);
      std::fill(free.begin() + begin, free.begin() + end, 0);
      free[end - 1] = warps_of(p) * lanes_per_warp_ - lanes_[p];
    }
    std::exclusive_scan(free.begin(), free.end(), free.begin(), std::int64_t{0});
    return free;
  }

  // Lays the rows that are not cut over the free lanes. Returns those that do not get to lie within one warp.
  std::vector<std::int32_t> place_in_free_lanes(const std::vector<std::int64_t>& free_before) {
    std::vector<std::int32_t> others;
    std::int64_t lane = 0;  // among the free ones
    std::size_t warp = 0;   // the last one with free_before[warp] <= lane
    for (std::size_t p = 0; p < lanes_.size(); ++p) {
      const std::int64_t lanes = lanes_[p];
      if (lanes == 0 || lanes > lanes_per_warp_) continue;
      while (warp + 1 < free_before.size() && free_before[warp + 1] <= lane) ++warp;
      if (warp + 1 < free_before.size() && lane + lanes <= free_before[warp + 1]) {
        const std::int64_t end = (static_cast<std::int64_t>(warp) + 1) * lanes_per_warp_;
        first[p] = end - (free_before[warp + 1] - lane);
      } else {
        others.push_back(static_cast<std::int32_t>(p));
      }
      lane += lanes;
    }
    return others;
  }

  // Packs rows into the warps behind the cut rows, those of each tile into warps of its own. Returns the number of
  // warps.
  std::int64_t place_in_tiles(const std::vector<std::int32_t>& rows, std::int64_t num_warps) {
    std::int64_t used = lanes_per_warp_;  // lanes of the last warp
    std::int32_t tile = -1;
    for (const std::int32_t p : rows) {
      if (p / packed_rows_per_tile != tile || used + lanes_[p] > lanes_per_warp_) {
        tile = p / packed_rows_per_tile;
        used = 0;
        ++num_warps;
      }
      first[p] = (num_warps - 1) * lanes_per_warp_ + used;
      used += lanes_[p];
    }
    return num_warps;
  }

  std::vector<std::int64_t> lanes_;  // of each row
  std::int64_t lanes_per_warp_;
};

// The segments of the cut rows, and the first one of each stored row (-1: not cut).
std::vector<std::int32_t> append_segments(packed_csr& result, const row_storage& rows, const lane_layout& layout) {
  std::vector<std::int32_t> first_segment(rows.num_rows, -1);
  std::int32_t num_partials = 0;
  for (const std::int32_t p : layout.cut_rows) {
    first_segment[p] = static_cast<std::int32_t>(result.pieces.size());
    const std::int64_t begin = layout.first[p] / result.lanes_per_warp();
    const std::int64_t end = begin + layout.warps_of(p);
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

void check_packed(std::int64_t num_rows, int entries_per_lane, int steps) {
  check_small("entries_per_lane", entries_per_lane);
  check_small("steps", steps);
  if (num_rows >= std::int64_t{packed_target}) {
    throw error(error_kind::index_overflow, "matrix", -1,
                "format packed-csr holds fewer than 2^30 - 1 rows, got " + std::to_string(num_rows));
  }
}

std::size_t packed_csr::bytes() const {
  return lanes.size() * sizeof(lanes[0]) + indices.size() * sizeof(indices[0]) + data.size() +
         pieces.size() * sizeof(packed_segment) + empty_rows.size() * sizeof(empty_rows[0]);
}

packed_csr to_packed(const row_storage& rows, int entries_per_lane, int steps) {
  check_packed(rows.num_rows, entries_per_lane, steps);
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
      .from_csr_on_gpu = WARPLOOM_CUDA(convert_to_packed_csr_on_gpu),
  };
}

}  // namespace warploom
