// What the formats with padded rows share: the entries of a row are a fixed stride apart, and a column index of -1
// marks a place without an entry. Padding follows the entries of its row.
#pragma once

#include <cstdint>

namespace warploom {

// The first place of a row, in two arrays of columns and values.
template <class Value>
struct row_places {
  std::int32_t* indices;
  Value* values;
};

template <class Value>
struct const_row_places {
  const std::int32_t* indices;
  const Value* values;
};

// Copies `count` entries from places `from_stride` apart to places `to_stride` apart.
template <class Value>
void copy_entries(std::int64_t count, const_row_places<Value> from, std::int64_t from_stride, row_places<Value> to,
                  std::int64_t to_stride) {
  for (std::int64_t j = 0; j < count; ++j) {
    to.indices[j * to_stride] = from.indices[j * from_stride];
    to.values[j * to_stride] = from.values[j * from_stride];
  }
}

// How many of `width` places hold an entry.
inline std::int64_t entries_before_padding(const std::int32_t* indices, std::int64_t width, std::int64_t stride) {
  std::int64_t count = 0;
  while (count < width && indices[count * stride] >= 0) ++count;
  return count;
}

}  // namespace warploom
