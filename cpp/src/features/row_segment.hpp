// Cache lines of a segment of the nonzeros, as one GPU thread counts them. Plain templates over how memory is read and
// where results go, so that the host can run them too.
//
// The columns of every row have to ascend (repeats are legal): a row then requests a line where the line of its column
// differs from that of the column before, and whether the row before requests it as well is found by a search in it.
#pragma once

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

// A guess, less j, for the nonzero of the row before, [before, row_begin), whose column is nearest to that of nonzero j
// of row [row_begin, row_end): as far along in its row as j is. 0 where the offsets do not ascend.
template <class Position>
WARPLOOM_HOST_DEVICE Position shift_to_row_before(Position before, Position row_begin, Position row_end, Position j) {
  if (before > row_begin || row_begin > j) return 0;
  if (row_begin == j || j >= row_end) return before - row_begin;
  const float along = static_cast<float>(j - row_begin) / static_cast<float>(row_end - row_begin);
  return before + static_cast<Position>(along * static_cast<float>(row_begin - before)) - j;
}

struct segment_geometry {
  uniform_divider line;   // columns of a cache line
  uniform_divider block;  // columns of a block
  bool count_blocks;      // else blocks are lines
};

// Counts the nonzeros [begin, end), which is not empty, of rows first_row .. last_row. Calls of `sink`
//   request(line, row)       of every line that a row requests, at the first nonzero that needs it,
//   whole_row(row, counts)   of every row that lies in the segment,
//   part_of_row(row, counts) of the row that the segment starts in, if it ends in the segment,
//   unsorted()               if the columns of a row descend: all earlier calls may then be wrong.
// The row that the segment stops in is returned, and `open` holds the counts of it that are not yet reported:
// neighbouring threads often stop in the same row and may add them first.
//
// Whatever the arrays hold, nothing is read but indptr[first_row - 1 .. last_row + 1] (from 0) and columns[0 .. end).
template <class Position, class Offsets, class Columns, class Sink>
WARPLOOM_HOST_DEVICE Position count_segment(const Offsets& indptr, const Columns& columns, Position begin, Position end,
                                            Position first_row, Position last_row, const segment_geometry& shape,
                                            Sink& sink, row_counts& open) {
  constexpr std::uint32_t none = ~std::uint32_t{0};  // beyond any line
  Position row = row_of_nonzero(indptr, first_row, last_row, begin);
  auto row_begin = static_cast<Position>(indptr[row]);
  auto row_end = static_cast<Position>(indptr[row + 1]);
  // Where the row before may hold the next line.
  Position before = row > 0 ? static_cast<Position>(indptr[row - 1]) : row_begin;
  if (before < 0) before = 0;
  Position shift = shift_to_row_before(before, row_begin, row_end, begin);
  std::int32_t column_before = -1;
  std::uint32_t line_before = none;
  std::uint32_t block_before = none;
  if (begin > 0 && begin > row_begin) {
    column_before = columns[begin - 1];
    line_before = shape.line.quotient(column_before);
    if (shape.count_blocks) block_before = shape.block.quotient(column_before);
  }
  open = {};
  for (Position j = begin; j < end; ++j) {
    if (j >= row_end && row < last_row) {
      if (row_begin >= begin) {
        sink.whole_row(row, open);
      } else {
        sink.part_of_row(row, open);
      }
      open = {};
      ++row;
      if (indptr[row + 1] <= j) row = row_of_nonzero(indptr, row, last_row, j);  // after empty rows
      before = indptr[row - 1];
      if (before < 0) before = 0;
      row_begin = indptr[row];
      row_end = indptr[row + 1];
      shift = shift_to_row_before(before, row_begin, row_end, row_begin);
      column_before = -1;
      line_before = none;
      block_before = none;
    }
    const std::int32_t column = columns[j];
    if (column < column_before) sink.unsorted();
    column_before = column;
    const std::uint32_t line = shape.line.quotient(column);
    if (line != line_before) {
      line_before = line;
      sink.request(line, row);
      ++open.lines;
      const Position before_end = row_begin < j ? row_begin : j;
      const auto line_begin = static_cast<std::int32_t>(line * shape.line.divisor);
      if (before < before_end) {
        Position guess = j + shift;
        guess = guess < before ? before : guess > before_end ? before_end : guess;
        before = first_not_below(columns, before, before_end, guess, line_begin);
        shift = before - j;
        open.shared += before < before_end && shape.line.quotient(columns[before]) == line;
      }
    }
    if (shape.count_blocks) {
      const std::uint32_t block = shape.block.quotient(column);
      open.blocks += block != block_before;
      block_before = block;
    }
  }
  return row;
}

}  // namespace warploom
