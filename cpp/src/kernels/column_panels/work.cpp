#include "kernels/column_panels/work.hpp"

#include <algorithm>

namespace warploom::cuda {
namespace {

constexpr int lanes_per_tile = panel_tile / places_per_lane;

// Costs in bytes that the thread block reads: loading a panel does not overlap with other work.
struct part_costs {
  std::int64_t tile;
  std::int64_t panel;

  part_costs(value_type dtype, int panel_columns)
      : tile(panel_tile * (size_of(dtype) + 2) + 2 * lanes_per_tile), panel(panel_columns * size_of(dtype)) {}
};

panel_shares cut_at(std::span<const std::int64_t> panel_ptr, const part_costs& costs, std::int64_t budget) {
  panel_shares shares;
  std::int64_t left = budget;
  for (std::size_t panel = 0; panel + 1 < panel_ptr.size(); ++panel) {
    const auto end = static_cast<std::int32_t>(panel_ptr[panel + 1] / panel_tile);
    for (auto tile = static_cast<std::int32_t>(panel_ptr[panel] / panel_tile); tile < end;) {
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

}  // namespace

panel_shares distribute_panels(std::span<const std::int64_t> panel_ptr, value_type dtype, int panel_columns,
                               int max_shares) {
  const part_costs costs(dtype, panel_columns);
  const std::int64_t tiles = panel_ptr.back() / panel_tile;
  if (tiles == 0) return {};
  // The minimum budget of a share with which that many shares suffice.
  const auto num_panels = static_cast<std::int64_t>(panel_ptr.size()) - 1;
  std::int64_t enough = tiles * costs.tile + num_panels * costs.panel;
  std::int64_t least = costs.panel + costs.tile;
  while (least < enough) {
    const std::int64_t budget = least + (enough - least) / 2;
    if (cut_at(panel_ptr, costs, budget).size() <= max_shares) {
      enough = budget;
    } else {
      least = budget + 1;
    }
  }
  return cut_at(panel_ptr, costs, enough);
}

}  // namespace warploom::cuda
