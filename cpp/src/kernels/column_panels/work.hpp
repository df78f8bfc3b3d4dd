// What the GPU needs besides the format column-panels: which thread block works on which tiles, and the tiles in the
// order in which a warp loads them. Host code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warploom/formats/column_panels.hpp"

namespace warploom::cuda {

constexpr int places_per_lane = 8;
constexpr int panel_warps = 16;  // of a thread block

// Tiles of one panel that one thread block works on. Each of its warps takes a chunk of neighbouring tiles.
struct panel_part {
  std::int32_t panel;
  std::int32_t first_tile;
  std::int32_t num_tiles;
  std::int32_t unused;  // a GPU thread reads 16 bytes with one load

  std::int32_t chunk_begin(int warp) const { return first_tile + num_tiles * warp / panel_warps; }
};

// Cuts the tiles into at most `max_shares` runs of about equal cost, where the cost of a share includes loading the
// panel of each of its parts. Share s has the parts share_parts[s] .. share_parts[s + 1].
struct panel_shares {
  std::vector<std::int32_t> share_parts{0};
  std::vector<panel_part> parts;

  std::int64_t size() const { return static_cast<std::int64_t>(share_parts.size()) - 1; }
};
panel_shares distribute_panels(const column_panels_matrix& matrix, int max_shares);

// For a row that is not complete at the end of a chunk, its partial sum is stored in the carry of the chunk (number
// part * panel_warps + warp). Cut row c is row `rows[c]` and has the carries of chunks[ptr[c]] .. chunks[ptr[c + 1]];
// those of the rows of block b are blocks[b] .. blocks[b + 1].
struct panel_cuts {
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> ptr;
  std::vector<std::int32_t> chunks;
  std::vector<std::int32_t> blocks;
};

struct panel_work {
  // Of the 8 places of a lane: the bits of row_ends, and 256 times the number of rows that end in the tile before.
  std::vector<std::uint16_t> lanes;
  std::vector<std::int32_t> first_sums;  // of every chunk: the sum of the first row that ends in it
  panel_cuts cuts;
};
panel_work plan_panel_work(const column_panels_matrix& matrix, const panel_shares& shares);

// Values in the order in which lanes load them: of each tile the first 16 bytes of every lane's places, then the next.
std::vector<std::byte> interleave_values(const column_panels_matrix& matrix);

}  // namespace warploom::cuda
