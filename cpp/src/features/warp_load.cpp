#include "features/warp_load.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

#include "features/divider.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

// Adds the loads of rows [begin, end) to those of their warps. A 64-bit division per row would dominate the pass, so
// `steps` is a shift where it can be.
template <class Steps>
void add_loads(const csr_pattern& matrix, std::int64_t begin, std::int64_t end, std::vector<std::int64_t>& load,
               Steps steps) {
  std::size_t warp = begin % load.size();
  for (std::int64_t row = begin; row < end; ++row) {
    load[warp] += steps(matrix.row_length(row));
    if (++warp == load.size()) warp = 0;
  }
}

}  // namespace

summary summarise_warp_load(const csr_pattern& matrix, const geometry& shape) {
  const std::int64_t busy = std::min<std::int64_t>(shape.warps, matrix.num_rows);  // warps that have a row
  const std::int64_t threads = shape.threads;
  const bool power_of_two = std::has_single_bit(static_cast<unsigned>(shape.threads));
  const int shift = std::countr_zero(static_cast<unsigned>(shape.threads));

  std::vector<std::int64_t> load(busy, 0);
  std::mutex merging;
  parallel_for(0, matrix.num_rows, 1 << 17, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> part(busy, 0);
    if (power_of_two) {
      add_loads(matrix, begin, end, part, [=](std::int64_t length) { return (length + threads - 1) >> shift; });
    } else {
      add_loads(matrix, begin, end, part, [=](std::int64_t length) { return ceil_divide(length, threads); });
    }
    const std::lock_guard<std::mutex> lock(merging);
    for (std::int64_t warp = 0; warp < busy; ++warp) load[warp] += part[warp];
  });

  summary across_warps;
  for (const std::int64_t value : load) across_warps.add(value);
  across_warps.add(0, shape.warps - busy);
  return across_warps;
}

}  // namespace warploom
