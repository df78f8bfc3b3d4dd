// Which thread block of a GPU works on which tiles of column panels. Host code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "warploom/formats/column_panels.hpp"

namespace warploom::cuda {

constexpr int places_per_lane = 8;
constexpr int panel_warps = 16;  // of a thread block

// Tiles of one panel that one thread block works on. Each of its warps w takes a chunk of neighbouring tiles, from
// first_tile + num_tiles * w / panel_warps on.
struct panel_part {
  std::int32_t panel;
  std::int32_t first_tile;
  std::int32_t num_tiles;
  std::int32_t unused;  // a GPU thread reads 16 bytes with one load
};

// Cuts the tiles into at most `max_shares` runs of about equal cost, where the cost of a share includes loading the
// panel of each of its parts. Share s has the parts share_parts[s] .. share_parts[s + 1].
struct panel_shares {
  std::vector<std::int32_t> share_parts{0};
  std::vector<panel_part> parts;

  std::int64_t size() const { return static_cast<std::int64_t>(share_parts.size()) - 1; }
};
panel_shares distribute_panels(std::span<const std::int64_t> panel_ptr, value_type dtype, int panel_columns,
                               int max_shares);

}  // namespace warploom::cuda
