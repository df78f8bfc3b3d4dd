// Cache lines that a nonzero adds to those of its row, as a GPU thread finds them. Plain templates over how memory is
// read, so that the host can run them too.
//
// The columns of every row have to ascend (repeats are legal): a row then requests a line where the line of its column
// differs from that of the column before, and whether the row before requests it as well is found by a search in it.
#pragma once

#include <bit>
#include <cstdint>

#include "host_device.hpp"

namespace warploom {

// Division by a number that is known only at run time, by a shift where it is a power of two. `shift` is -1 if it is
// not.
struct uniform_divider {
  std::uint32_t divisor;
  int shift;

  WARPLOOM_HOST_DEVICE std::uint32_t quotient(std::uint32_t value) const {
    return shift >= 0 ? value >> shift : value / divisor;
  }
  WARPLOOM_HOST_DEVICE std::uint32_t remainder(std::uint32_t value) const {
    return shift >= 0 ? value & (divisor - 1) : value % divisor;
  }
};

// Counts of a row, or of a part of one.
struct row_counts {
  std::uint32_t lines = 0;   // it requests
  std::uint32_t shared = 0;  // of these, lines that the row before requests as well
  std::uint32_t blocks = 0;  // 0 where blocks are not counted
};

// In what follows, Position is the type of rows and of places of nonzeros: int64, or int32 where both are below 2^30,
// which takes half the instructions on a GPU.

// The last row in first .. last that begins at nonzero j or before it. `first` must. That row has nonzeros unless it is
// row `last`.
template <class Position, class Offsets>
WARPLOOM_HOST_DEVICE Position row_of_nonzero(const Offsets& indptr, Position first, Position last, Position j) {
  Position end = last + 1;
  while (end - first > 1) {
    const Position middle = first + (end - first) / 2;
    if (indptr[middle] <= j) {
      first = middle;
    } else {
      end = middle;
    }
  }
  return first;
}

// The first position in [begin, end) of ascending columns that is not below `column`, or `end`. Looked for from
// `guess`, in [begin, end], with steps that double, and then by bisection: a good guess takes two reads.
template <class Position, class Columns>
WARPLOOM_HOST_DEVICE Position first_not_below(const Columns& columns, Position begin, Position end, Position guess,
                                              std::int32_t column) {
  if (guess < end && columns[guess] < column) {
    begin = guess + 1;
    for (Position step = 1; end - begin >= step; step *= 2) {
      const Position probe = begin + step - 1;
      if (columns[probe] >= column) {
        end = probe;
        break;
      }
      begin = probe + 1;
    }
  } else {
    end = guess;
    for (Position step = 1; end - begin >= step; step *= 2) {
      const Position probe = end - step;
      if (columns[probe] < column) {
        begin = probe + 1;
        break;
      }
      end = probe;
    }
  }
  while (begin < end) {
    const Position middle = begin + (end - begin) / 2;
    if (columns[middle] < column) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// The greatest power of two that is not above `size`; 0 where there is none.
template <class Position>
WARPLOOM_HOST_DEVICE Position power_below(Position size) {
  if (size <= 0) return 0;
#ifdef __CUDA_ARCH__
  return Position{1} << (63 - __clzll(size));
#else
  return Position{1} << (63 - std::countl_zero(static_cast<std::uint64_t>(size)));
#endif
}

// The same without a guess, by steps that halve: lanes of a warp with rows of about the same length stay together.
template <class Position, class Columns>
WARPLOOM_HOST_DEVICE Position first_not_below(const Columns& columns, Position begin, Position end,
                                              std::int32_t column) {
  for (Position step = power_below(end - begin); step > 0; step /= 2) {
    if (step <= end - begin && columns[begin + step - 1] < column) begin += step;
  }
  return begin;
}

struct segment_geometry {
  uniform_divider line;   // columns of a cache line
  uniform_divider block;  // columns of a block
  bool count_blocks;      // else blocks are lines
};

// What a nonzero adds to the counts of its row.
struct nonzero_counts {
  bool line = false;    // the row requests `number`, which it has not before
  bool shared = false;  // and the row before requests it as well
  bool block = false;
  bool descends = false;  // its column is below the one before: all counts may be wrong
  std::uint32_t number = 0;
};

// Nonzero j, of `column`, of the row from `row_begin` on, and the nonzeros of the row before from `before` on.
// `column_before` is that of the nonzero before it in its row, -1 for the first. Whatever they are, nothing but
// columns[0 .. j) is read.
template <class Position, class Columns>
WARPLOOM_HOST_DEVICE nonzero_counts count_nonzero(const Columns& columns, Position before, Position row_begin,
                                                  Position j, std::int32_t column, std::int32_t column_before,
                                                  const segment_geometry& shape) {
  nonzero_counts found;
  found.descends = column < column_before;
  found.number = shape.line.quotient(column);
  found.line = column_before < 0 || found.number != shape.line.quotient(column_before);
  if (shape.count_blocks) {
    found.block = column_before < 0 || shape.block.quotient(column) != shape.block.quotient(column_before);
  }
  if (!found.line) return found;
  const Position end = row_begin < j ? row_begin : j;
  const auto line_begin = static_cast<std::int32_t>(found.number * shape.line.divisor);
  const Position first = first_not_below(columns, before < 0 ? Position{0} : before, end, line_begin);
  found.shared = first < end && shape.line.quotient(columns[first]) == found.number;
  return found;
}

}  // namespace warploom
