#include "kernels/column_panels/work.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "warploom/parallel.hpp"

namespace warploom::cuda {
namespace {

constexpr int lanes_per_tile = panel_tile / places_per_lane;

std::int32_t tiles_before(const column_panels_matrix& matrix, std::int64_t panel) {
  return static_cast<std::int32_t>(matrix.panel_ptr[panel] / panel_tile);
}

// Costs in bytes that the thread block reads: loading a panel does not overlap with other work.
struct part_costs {
  std::int64_t tile;
  std::int64_t panel;

  explicit part_costs(const column_panels_matrix& matrix)
      : tile(panel_tile * (size_of(matrix.dtype) + 2) + 2 * lanes_per_tile),
        panel(matrix.panel_columns * size_of(matrix.dtype)) {}
};

panel_shares cut_at(const column_panels_matrix& matrix, const part_costs& costs, std::int64_t budget) {
  panel_shares shares;
  std::int64_t left = budget;
  for (std::int64_t panel = 0; panel < matrix.num_panels(); ++panel) {
    const std::int32_t end = tiles_before(matrix, panel + 1);
    for (std::int32_t tile = tiles_before(matrix, panel); tile < end;) {
      if (left < costs.panel + costs.tile) {
        shares.share_parts.push_back(static_cast<std::int32_t>(shares.parts.size()));
        left = budget;
      }
      const auto taken =
          static_cast<std::int32_t>(std::min<std::int64_t>(end - tile, (left - costs.panel) / costs.tile));
      shares.parts.push_back({static_cast<std::int32_t>(panel), tile, taken, 0});
      left -= costs.panel + taken * costs.tile;
      tile += taken;
    }
  }
  if (!shares.parts.empty()) shares.share_parts.push_back(static_cast<std::int32_t>(shares.parts.size()));
  return shares;
}

// Rows that end before each tile.
std::vector<std::int32_t> sums_before_tiles(const column_panels_matrix& matrix) {
  const std::int64_t tiles = matrix.places() / panel_tile;
  std::vector<std::int32_t> before(tiles + 1, 0);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    int ends = 0;
    for (int lane = 0; lane < lanes_per_tile; ++lane) {
      ends += std::popcount(matrix.row_ends[tile * lanes_per_tile + lane]);
    }
    before[tile + 1] = before[tile] + ends;
  }
  return before;
}

std::vector<std::uint16_t> describe_lanes(const column_panels_matrix& matrix) {
  const std::int64_t tiles = matrix.places() / panel_tile;
  std::vector<std::uint16_t> lanes(tiles * lanes_per_tile);
  parallel_for(0, tiles, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      int before = 0;
      for (std::int64_t lane = tile * lanes_per_tile; lane < (tile + 1) * lanes_per_tile; ++lane) {
        lanes[lane] = static_cast<std::uint16_t>(before << 8 | matrix.row_ends[lane]);
        before += std::popcount(matrix.row_ends[lane]);
      }
    }
  });
  return lanes;
}

// The row whose sum in a panel has number `sum`.
std::int64_t row_of_sum(const column_panels_matrix& matrix, std::int64_t panel, std::int32_t sum) {
  const std::int64_t panels = matrix.num_panels();
  std::int64_t block = 0;  // the last with first_sums <= sum
  for (std::int64_t count = matrix.num_row_blocks(); count > 1;) {
    const std::int64_t half = count / 2;
    if (matrix.first_sums[(block + half) * panels + panel] <= sum) block += half;
    count -= half;
  }
  std::uint32_t mask = matrix.row_masks[block * panels + panel];
  for (std::int32_t skipped = matrix.first_sums[block * panels + panel]; skipped < sum; ++skipped) mask &= mask - 1;
  return block * rows_per_mask + std::countr_zero(mask);
}

// The carry of a chunk, and the row it belongs to.
struct cut_chunk {
  std::int64_t row;
  std::int32_t chunk;
};

panel_cuts gather_cuts(const column_panels_matrix& matrix, std::vector<cut_chunk> pieces) {
  // Chunks are numbered by panel: a row's carries are added in the order of its panels.
  std::sort(pieces.begin(), pieces.end(),
            [](const cut_chunk& a, const cut_chunk& b) { return std::tie(a.row, a.chunk) < std::tie(b.row, b.chunk); });
  panel_cuts cuts;
  cuts.blocks.resize(matrix.num_row_blocks() + 1);
  for (const cut_chunk& piece : pieces) {
    if (cuts.rows.empty() || cuts.rows.back() != piece.row) {
      cuts.rows.push_back(static_cast<std::int32_t>(piece.row));
      cuts.ptr.push_back(static_cast<std::int32_t>(cuts.chunks.size()));
      ++cuts.blocks[piece.row / rows_per_mask + 1];
    }
    cuts.chunks.push_back(piece.chunk);
  }
  cuts.ptr.push_back(static_cast<std::int32_t>(cuts.chunks.size()));
  for (std::size_t b = 1; b < cuts.blocks.size(); ++b) cuts.blocks[b] += cuts.blocks[b - 1];
  return cuts;
}

}  // namespace

panel_shares distribute_panels(const column_panels_matrix& matrix, int max_shares) {
  const part_costs costs(matrix);
  const std::int64_t tiles = matrix.places() / panel_tile;
  if (tiles == 0) return {};
  // The minimum budget of a share with which that many shares suffice.
  std::int64_t enough = tiles * costs.tile + matrix.num_panels() * costs.panel;
  std::int64_t least = costs.panel + costs.tile;
  while (least < enough) {
    const std::int64_t budget = least + (enough - least) / 2;
    if (cut_at(matrix, costs, budget).size() <= max_shares) {
      enough = budget;
    } else {
      least = budget + 1;
    }
  }
  return cut_at(matrix, costs, enough);
}

panel_work plan_panel_work(const column_panels_matrix& matrix, const panel_shares& shares) {
  panel_work work;
  work.lanes = describe_lanes(matrix);
  const std::vector<std::int32_t> sums_before = sums_before_tiles(matrix);
  std::vector<cut_chunk> pieces;
  for (const panel_part& part : shares.parts) {
    for (int warp = 0; warp < panel_warps; ++warp) {
      const auto chunk = static_cast<std::int32_t>(work.first_sums.size());
      const std::int32_t begin = part.chunk_begin(warp);
      const std::int32_t end = part.chunk_begin(warp + 1);
      work.first_sums.push_back(sums_before[begin]);
      // The last row of a panel is complete at its end.
      if (begin == end || end == tiles_before(matrix, part.panel + 1)) continue;
      if (matrix.ends_row(std::int64_t{end} * panel_tile - 1)) continue;
      pieces.push_back({row_of_sum(matrix, part.panel, sums_before[end]), chunk});
    }
  }
  work.cuts = gather_cuts(matrix, std::move(pieces));
  return work;
}

std::vector<std::byte> interleave_values(const column_panels_matrix& matrix) {
  constexpr std::size_t vector_bytes = 16;
  const std::size_t lane_bytes = places_per_lane * size_of(matrix.dtype);
  const std::size_t vectors = lane_bytes / vector_bytes;
  std::vector<std::byte> result(matrix.data.size());
  parallel_for(0, matrix.places() / panel_tile, 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::byte* from = matrix.data.data() + tile * panel_tile * size_of(matrix.dtype);
      std::byte* to = result.data() + tile * panel_tile * size_of(matrix.dtype);
      for (std::size_t q = 0; q < vectors; ++q) {
        for (int lane = 0; lane < lanes_per_tile; ++lane, to += vector_bytes) {
          std::memcpy(to, from + lane * lane_bytes + q * vector_bytes, vector_bytes);
        }
      }
    }
  });
  return result;
}

}  // namespace warploom::cuda
