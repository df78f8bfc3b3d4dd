#include "kernels/spmm/padded_copy.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

namespace warploom {
namespace {

// Measured on an H200. A copy reads B and writes as much; that costs launches and an allocation, too.
constexpr double copied_bytes_per_us = 4e6;
constexpr double copy_us = 5;

// A panel of this size stays in the L2 between the copy and the product, beside rows of A and C.
constexpr std::int64_t cached_bytes = std::int64_t{32} << 20;
// The memory of a copy where a single tile takes more than that.
constexpr std::int64_t most_bytes = std::int64_t{256} << 20;
// Of a row of the narrowest panel: A, read again for each panel, takes 8 bytes a nonzero in float32.
constexpr std::int64_t narrowest_row_bytes = 64;

std::atomic<padded_copies> when_copied{padded_copies::where_they_pay};
std::atomic<std::int64_t> panel_bytes_of_tests{0};

}  // namespace

void make_padded_copies(padded_copies when, std::int64_t panel_bytes) {
  when_copied = when;
  panel_bytes_of_tests = panel_bytes;
}

padded_copies when_copies_are_made() { return when_copied; }

bool copy_pays(const unaligned_product& product) {
  const auto entries = static_cast<double>(product.entries);
  const auto columns = static_cast<double>(product.columns);
  const double saved_us = 1e-6 * entries * (product.cost.per_entry + product.cost.per_product * columns);
  const double bytes = 2.0 * static_cast<double>(product.rows) * columns * static_cast<double>(product.value_bytes);
  return saved_us > copy_us + bytes / copied_bytes_per_us;
}

std::int64_t copied_columns(const unaligned_product& product, std::int64_t tile_columns) {
  const padded_copies when = when_copied;
  if (when == padded_copies::never || product.rows == 0 || product.columns == 0) return 0;
  if (when == padded_copies::where_they_pay && !copy_pays(product)) return 0;

  const std::int64_t step = 16 / product.value_bytes;
  const std::int64_t row_bytes = (product.columns + step - 1) / step * 16;  // of a copy of all columns
  const std::int64_t of_test = panel_bytes_of_tests;
  const std::int64_t cached = of_test > 0 ? of_test : cached_bytes;
  const std::int64_t most = of_test > 0 ? of_test : most_bytes;
  const std::int64_t cached_row = cached / product.rows, longest_row = most / product.rows;  // bytes
  if (row_bytes <= cached_row) return product.columns;

  std::int64_t tile_bytes = std::max<std::int64_t>(16, tile_columns * product.value_bytes);
  if (tile_bytes <= cached_row) return cached_row / tile_bytes * tile_bytes / product.value_bytes;
  // One tile, or as much of it as memory allows.
  tile_bytes = std::min(tile_bytes, row_bytes);
  if (tile_bytes > longest_row) {
    tile_bytes = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(longest_row)));
    if (tile_bytes < (of_test > 0 ? 16 : narrowest_row_bytes)) return 0;
  }
  return std::min(product.columns, tile_bytes / product.value_bytes);
}

}  // namespace warploom
