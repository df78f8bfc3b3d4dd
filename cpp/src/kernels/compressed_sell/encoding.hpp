// Which encoding a segment of compressed-sell gets, for the conversions on the host and on the GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "host_device.hpp"
#include "warploom/formats/compressed_sell.hpp"

namespace warploom {

inline constexpr std::int64_t compressed_sell_max_slots = (1 << 29) - 1;  // in 32 bits beside the encoding

// Whole groups of slots have slot bases and presence bits.
WARPLOOM_HOST_DEVICE std::int64_t whole_slot_groups(std::int64_t slots) {
  return (slots + sell_slot_group - 1) / sell_slot_group * sell_slot_group;
}

// A multiple of sell_index_unit for every encoding, because the height is a multiple of 32.
WARPLOOM_HOST_DEVICE std::int64_t index_bytes(sell_encoding encoding, std::int64_t slots, std::int64_t height) {
  const std::int64_t slot_bases = whole_slot_groups(slots) * static_cast<std::int64_t>(sizeof(std::int32_t));
  switch (encoding) {
    case sell_encoding::full_diagonal:
      return slot_bases;
    case sell_encoding::diagonal:
      return slot_bases + whole_slot_groups(slots) / sell_slot_group * height;
    case sell_encoding::slot8:
      return slot_bases + slots * height;
    case sell_encoding::slot16:
      return slot_bases + slots * height * 2;
    case sell_encoding::delta8:
      return slots * height;
    case sell_encoding::slice16:
    case sell_encoding::delta16:
      return slots * height * 2;
    case sell_encoding::plain:
      break;
  }
  return slots * height * 4;
}

// Places without an entry that carry a gap to where a code reaches: a value of `value_size` bytes holds the distance.
struct jump_rule {
  std::int32_t max_code;
  std::int32_t max_jump;

  WARPLOOM_HOST_DEVICE jump_rule(std::int32_t marker, std::size_t value_size)
      : max_code(marker - 1), max_jump(value_size == 2 ? 0xffff : 0x7fffffff) {}

  // As many jumps of max_jump as the gap has room for, and one for what is left where no code holds it.
  WARPLOOM_HOST_DEVICE std::int32_t count(std::int32_t gap) const {
    return gap / max_jump + (gap % max_jump > max_code ? 1 : 0);
  }
};

// What all encodings but those by diagonals depend on. `longest` is the number of entries of the longest row.
struct segment_measures {
  std::int64_t longest = 0;
  std::int32_t first = 0;  // lowest column
  std::int32_t last = 0;   // highest column
  // The largest difference between columns in one slot, if the entries of rows are put into slots one after another.
  std::int32_t widest_slot = 0;
  std::int64_t slots_with_jumps8 = 0;
  std::int64_t slots_with_jumps16 = 0;
};

// The encoding that takes the fewest bytes for values and indices; of two that take the same, the one considered first.
struct encoding_choice {
  std::int64_t height;
  std::int64_t value_size;
  sell_encoding encoding = sell_encoding::plain;
  std::int64_t num_slots = 0;
  std::int32_t base = 0;
  std::int64_t bytes = 0;

  // Considers all but those by diagonals. They are ordered by the cost of decoding.
  WARPLOOM_HOST_DEVICE void choose(const segment_measures& segment) {
    encoding = sell_encoding::plain;
    num_slots = segment.longest;
    base = 0;
    bytes = bytes_of(encoding, num_slots);
    if (segment.last - segment.first < 0xffff) consider(sell_encoding::slice16, segment.longest, segment.first);
    if (segment.widest_slot < 0xff) consider(sell_encoding::slot8, segment.longest, 0);
    if (segment.widest_slot < 0xffff) consider(sell_encoding::slot16, segment.longest, 0);
    consider(sell_encoding::delta8, segment.slots_with_jumps8, segment.first);
    consider(sell_encoding::delta16, segment.slots_with_jumps16, segment.first);
  }

  // With more diagonals than this neither of those encodings takes fewer bytes.
  WARPLOOM_HOST_DEVICE std::int64_t most_diagonals() const {
    return (bytes - 1) / (height * value_size + static_cast<std::int64_t>(sizeof(std::int32_t)));
  }

  WARPLOOM_HOST_DEVICE void consider_diagonals(std::int64_t diagonals, std::int64_t num_entries) {
    const bool full = diagonals * height == num_entries;
    consider(full ? sell_encoding::full_diagonal : sell_encoding::diagonal, diagonals, 0);
  }

 private:
  WARPLOOM_HOST_DEVICE std::int64_t bytes_of(sell_encoding e, std::int64_t slots) const {
    return slots * height * value_size + index_bytes(e, slots, height);
  }

  WARPLOOM_HOST_DEVICE void consider(sell_encoding e, std::int64_t slots, std::int32_t segment_base) {
    const std::int64_t needed = bytes_of(e, slots);
    if (needed >= bytes) return;
    encoding = e;
    num_slots = slots;
    base = segment_base;
    bytes = needed;
  }
};

}  // namespace warploom
