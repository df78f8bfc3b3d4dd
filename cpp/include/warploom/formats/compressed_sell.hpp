// Sliced ELLPACK (Monakov, Lokhmotov and Avetisyan 2010) with compressed column indices: the format for large matrices
// whose rows have nearly the pattern of their neighbours, where the bytes of the column indices limit a product.
//
// 32 * rows_per_lane consecutive rows form a slice, and a warp multiplies a slice: its lane l has the rows at positions
// l, 32 + l, 64 + l, ... Slot j of a slice holds one place for each of its rows, those of a lane adjacent, so that
// a warp reads a slot with one coalesced load. A long slice can be cut into `parts`, each with an equal part of every
// row's entries; such a part is a segment. Every segment has the index encoding that takes the fewest bytes.
//
// The entries of a row are stored by ascending column, duplicates in their given order. Places without an entry hold
// the value 0, and are marked, so that no kernel multiplies them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

// How a segment says which column a place refers to. A code of all ones marks a place without an entry.
enum class sell_encoding : std::uint8_t {
  full_diagonal,  // slot base + position in the slice; every place has an entry
  diagonal,       // the same with one bit a place, which says whether it has an entry
  slot8,          // slot base + 8-bit code
  slice16,        // segment base + 16-bit code
  slot16,         // slot base + 16-bit code
  delta8,         // column of the place before in the row (at first: segment base) + 8-bit code
  delta16,        // the same with 16 bits; code of all ones: the value's bits are a distance to jump, and no entry
  plain,          // the column itself
};

inline constexpr std::array<const char*, 8> sell_encoding_names{"full_diagonal", "diagonal", "slot8",   "slice16",
                                                                "slot16",        "delta8",   "delta16", "plain"};

// 16 bytes, which a warp loads at once.
struct alignas(16) sell_segment {
  std::int32_t first_slot = 0;               // in slots from the beginning of `data`
  std::uint32_t num_slots_and_encoding = 0;  // num_slots * 8 + encoding
  std::uint32_t first_index = 0;             // in units of sell_index_unit bytes from the beginning of `indices`
  std::int32_t base = 0;

  std::int64_t num_slots() const { return num_slots_and_encoding >> 3; }
  sell_encoding encoding() const { return static_cast<sell_encoding>(num_slots_and_encoding & 7u); }
};

inline constexpr int sell_lanes = 32;
inline constexpr std::int64_t sell_index_unit = 16;
// Slot bases and presence bits are stored for groups of this many slots: a kernel loads them as vectors and bytes.
inline constexpr std::int64_t sell_slot_group = 8;

struct compressed_sell_options {
  int rows_per_lane = 2;  // 1, 2 or 4
  int sort_window = 1;    // number of consecutive rows within which rows are sorted by decreasing length; 1: not sorted
  int parts = 1;          // segments of a slice: 1, 2, 4 or 8
};

struct compressed_sell_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  compressed_sell_options options;
  std::int64_t num_entries = 0;
  std::vector<sell_segment> segments;  // part q of slice s is s * parts + q
  std::vector<std::byte> indices;      // slot bases, presence bits and codes of the segments, one after another
  std::vector<std::byte> data;         // values; the slots of the segments, one after another
  std::vector<std::int32_t> row_ids;   // stored row p is row row_ids[p] of the matrix; empty: row p

  std::int64_t nnz() const { return num_entries; }
  int slice_height() const { return sell_lanes * options.rows_per_lane; }
  std::int64_t num_slices() const { return (num_rows + slice_height() - 1) / slice_height(); }
  std::int64_t places() const { return static_cast<std::int64_t>(data.size() / size_of(dtype)); }
  std::int64_t row_of(std::int64_t stored_row) const { return row_ids.empty() ? stored_row : row_ids[stored_row]; }
  std::size_t bytes() const;  // of the four arrays
  std::vector<format_field> fields() const;
  std::array<std::int64_t, 8> segments_by_encoding() const;  // without segments that have no slots
};

// Throws error_kind::parameter for options out of range, error_kind::index_overflow for a matrix that is too large.
compressed_sell_matrix to_compressed_sell(const csr_view& matrix, const compressed_sell_options& options);
csr_matrix to_csr(const compressed_sell_matrix& matrix);

// Places of the format if no segment were encoded by diagonals or with jumps. Cheap: reads row lengths only.
std::int64_t compressed_sell_places(const csr_pattern& matrix, const compressed_sell_options& options);

// Where a row of a slice has its place within a slot.
inline int sell_place(int position, int rows_per_lane) {
  return position % sell_lanes * rows_per_lane + position / sell_lanes;
}

namespace detail {

inline std::int64_t round_up(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; }

template <class Code, class Visit>
void visit_offsets(const compressed_sell_matrix& matrix, const sell_segment& segment, const std::int32_t* slot_bases,
                   const Code* codes, Visit visit) {
  const int height = matrix.slice_height();
  for (std::int64_t slot = 0; slot < segment.num_slots(); ++slot) {
    const std::int32_t base = slot_bases ? slot_bases[slot] : segment.base;
    for (int position = 0; position < height; ++position) {
      const std::int64_t place = slot * height + sell_place(position, matrix.options.rows_per_lane);
      if (codes[place] == Code(-1)) continue;
      visit(position, segment.first_slot * std::int64_t{height} + place,
            static_cast<std::int32_t>(base + codes[place]));
    }
  }
}

template <class Bits, class Code, class Visit>
void visit_deltas(const compressed_sell_matrix& matrix, const sell_segment& segment, const Code* codes, Visit visit) {
  const int height = matrix.slice_height();
  const auto* values = reinterpret_cast<const Bits*>(matrix.data.data()) + segment.first_slot * std::int64_t{height};
  std::array<std::int32_t, sell_lanes * 4> column;
  column.fill(segment.base);
  for (std::int64_t slot = 0; slot < segment.num_slots(); ++slot) {
    for (int position = 0; position < height; ++position) {
      const std::int64_t place = slot * height + sell_place(position, matrix.options.rows_per_lane);
      if (codes[place] == Code(-1)) {
        column[position] += static_cast<std::int32_t>(values[place]);
      } else {
        column[position] += codes[place];
        visit(position, segment.first_slot * std::int64_t{height} + place, column[position]);
      }
    }
  }
}

template <class Visit>
void visit_diagonals(const compressed_sell_matrix& matrix, const sell_segment& segment, const std::int32_t* slot_bases,
                     Visit visit) {
  const int height = matrix.slice_height();
  const std::int64_t num_slots = segment.num_slots();
  const auto* present = reinterpret_cast<const std::uint8_t*>(slot_bases + round_up(num_slots, sell_slot_group));
  const bool full = segment.encoding() == sell_encoding::full_diagonal;
  for (std::int64_t slot = 0; slot < num_slots; ++slot) {
    for (int position = 0; position < height; ++position) {
      const int in_slot = sell_place(position, matrix.options.rows_per_lane);
      const std::int64_t place = slot * height + in_slot;
      if (!full && !(present[slot / 8 * height + in_slot] >> slot % 8 & 1)) continue;
      visit(position, segment.first_slot * std::int64_t{height} + place, slot_bases[slot] + position);
    }
  }
}

}  // namespace detail

// Calls visit(position in the slice, place in `data`, column) for every entry of a segment, slot by slot.
template <class Visit>
void for_each_entry(const compressed_sell_matrix& matrix, const sell_segment& segment, Visit visit) {
  if (segment.num_slots() == 0) return;
  const std::byte* indices = matrix.indices.data() + segment.first_index * sell_index_unit;
  const auto* slot_bases = reinterpret_cast<const std::int32_t*>(indices);
  const std::byte* after_bases =
      indices + detail::round_up(segment.num_slots(), sell_slot_group) * sizeof(std::int32_t);
  const auto deltas = [&](const auto* codes) {
    if (size_of(matrix.dtype) == 2) {
      detail::visit_deltas<std::uint16_t>(matrix, segment, codes, visit);
    } else if (size_of(matrix.dtype) == 4) {
      detail::visit_deltas<std::uint32_t>(matrix, segment, codes, visit);
    } else {
      detail::visit_deltas<std::uint64_t>(matrix, segment, codes, visit);
    }
  };
  switch (segment.encoding()) {
    case sell_encoding::full_diagonal:
    case sell_encoding::diagonal:
      return detail::visit_diagonals(matrix, segment, slot_bases, visit);
    case sell_encoding::slot8:
      return detail::visit_offsets(matrix, segment, slot_bases, reinterpret_cast<const std::uint8_t*>(after_bases),
                                   visit);
    case sell_encoding::slice16:
      return detail::visit_offsets(matrix, segment, nullptr, reinterpret_cast<const std::uint16_t*>(indices), visit);
    case sell_encoding::slot16:
      return detail::visit_offsets(matrix, segment, slot_bases, reinterpret_cast<const std::uint16_t*>(after_bases),
                                   visit);
    case sell_encoding::delta8:
      return deltas(reinterpret_cast<const std::uint8_t*>(indices));
    case sell_encoding::delta16:
      return deltas(reinterpret_cast<const std::uint16_t*>(indices));
    case sell_encoding::plain:
      return detail::visit_offsets(matrix, segment, nullptr, reinterpret_cast<const std::uint32_t*>(indices), visit);
  }
}

}  // namespace warploom
