// Row-major products with rows of B that do not begin on 16 bytes: whether they are computed from a copy of B whose
// rows do, and in panels of how many columns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "host_device.hpp"

namespace warploom {

// What a kernel takes longer where rows of B do not begin on 16 bytes, in picoseconds for each entry of A that is
// multiplied by a row of B (a nonzero, or a column vector), and for each such entry and column of B.
struct unaligned_cost {
  double per_entry = 0;
  double per_product = 0;
};

struct unaligned_product {
  std::int64_t entries = 0;
  std::int64_t rows = 0;  // of B
  std::int64_t columns = 0;
  std::int64_t value_bytes = 0;
  unaligned_cost cost;
};

// Whether copying B first takes less time than reading it as it is. It depends on nothing but the sizes, so that a
// product is always computed in the same way.
bool copy_pays(const unaligned_product& product);

// The columns that are copied and multiplied at a time, out of those of the product; 0: none, because the copy does not
// pay or would take too much memory. A kernel takes `tile_columns` columns at a time, a power of two, and reads A again
// for the next: panels of whole tiles cost nothing but launches.
std::int64_t copied_columns(const unaligned_product& product, std::int64_t tile_columns);

// For tests: copies are made of all operands they could be made of, or of none, and a panel takes at most so many bytes
// (0: as many as otherwise).
enum class padded_copies { where_they_pay, always, never };
void make_padded_copies(padded_copies when, std::int64_t panel_bytes);
padded_copies when_copies_are_made();

// ---- The bytes of a row

struct sixteen_bytes {
  std::uint32_t words[4];
};

// `count` bytes from byte `shift` of `low` on, `high` being what follows it, and zeros to fill up. 0 <= shift < 16.
WARPLOOM_HOST_DEVICE sixteen_bytes realigned(const sixteen_bytes& low, const sixteen_bytes& high, int shift,
                                             std::int64_t count) {
  std::uint32_t words[8];
  for (int i = 0; i < 4; ++i) {
    words[i] = low.words[i];
    words[i + 4] = high.words[i];
  }
  // Selections, and no index that depends on the shift: the words stay in registers.
  for (int i = 0; i < 6; ++i) words[i] = (shift & 8) != 0 ? words[i + 2] : words[i];
  for (int i = 0; i < 5; ++i) words[i] = (shift & 4) != 0 ? words[i + 1] : words[i];
  sixteen_bytes result;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t both = std::uint64_t{words[i + 1]} << 32 | words[i];
    const auto word = static_cast<std::uint32_t>(both >> (8 * (shift & 3)));
    const std::int64_t left = count - 4 * i;
    const std::uint32_t kept = left >= 4 ? ~0u : left <= 0 ? 0u : (1u << (8 * left)) - 1u;
    result.words[i] = word & kept;
  }
  return result;
}

}  // namespace warploom
