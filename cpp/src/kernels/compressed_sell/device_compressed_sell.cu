// Conversion from CSR to compressed-sell on the GPU, in two passes with a warp for each segment, as on the host: the
// first chooses encodings, the second writes the places where a prefix sum over the segments has put them. The host
// learns how many places there are before the first pass, and how large the arrays are after it.
//
// A lane goes through the rows that it has in the product, so that all of it is in step: slot by slot, or, for the
// encodings by diagonals, from one distance to the next that any row has. The warp copies the next few entries of its
// rows to shared memory together: lanes that read a row each would fetch a sector for every entry.
#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/compressed_sell/device_compressed_sell.hpp"
#include "kernels/compressed_sell/encoding.hpp"
#include "kernels/compressed_sell/options.hpp"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/sell/row_slices.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 128;
constexpr int segment_threads = 64;  // of the kernels with a warp for each segment
constexpr int segment_warps = segment_threads / 32;
constexpr int no_offset = 0x7fffffff;  // more than any distance from the diagonal of a slice

// The matrix as its segments take it: rows by ascending column.
struct sorted_csr {
  std::int64_t num_rows;
  std::int64_t num_segments;
  int log2_parts;
  const std::int32_t* row_ids;  // null: the rows in their order
  const std::int32_t* indptr;
  const std::int32_t* indices;
  const std::int32_t* sources;  // where the values are; null: at the same places

  __device__ __forceinline__ unsigned source(unsigned j) const { return sources ? __ldg(sources + j) : j; }
};

// What a lane has of a segment: entries begin[r] .. end[r] of the row at position 32 r + lane of the slice.
template <int R>
struct lane_shares {
  unsigned begin[R];
  unsigned end[R];
  bool unsorted = false;  // a row's share starts with a lower column than the share before ended with

  __device__ __forceinline__ lane_shares(const sorted_csr& A, std::int64_t segment, int lane) {
    const auto part = static_cast<unsigned>(segment) & ((1u << A.log2_parts) - 1);
    const std::int64_t first = (segment >> A.log2_parts) * (sell_lanes * R);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const std::int64_t p = first + r * sell_lanes + lane;
      begin[r] = end[r] = 0;
      if (p >= A.num_rows) continue;
      const std::int64_t row = A.row_ids ? A.row_ids[p] : p;
      const unsigned row_begin = A.indptr[row];
      const unsigned long long length = A.indptr[row + 1] - A.indptr[row];
      begin[r] = row_begin + static_cast<unsigned>(length * part >> A.log2_parts);
      end[r] = row_begin + static_cast<unsigned>(length * (part + 1) >> A.log2_parts);
      if (begin[r] > row_begin && begin[r] < end[r]) unsorted |= A.indices[begin[r] - 1] > A.indices[begin[r]];
    }
  }

  __device__ __forceinline__ unsigned length(int r) const { return end[r] - begin[r]; }
};

// Slots that are looked at together.
template <int R>
constexpr int batch_slots = 8 / R;

// Stands for the type of values where only columns are read.
struct no_values {};

// Some entries of every row of a warp. One place more in a row keeps lanes in banks of their own.
template <int R, class Bits>
struct window_memory {
  static constexpr int log2_size = R == 4 ? 3 : 4;
  static constexpr int stride = (1 << log2_size) + 1;

  Bits values[R][32][stride];
  int columns[R][32][stride];
};
template <int R>
struct window_memory<R, no_values> {
  static constexpr int log2_size = R == 4 ? 3 : 4;
  static constexpr int stride = (1 << log2_size) + 1;

  int columns[R][32][stride];
};

// A window on the entries of each row, which all lanes move at the same time.
template <int R, class Bits>
class row_windows {
 public:
  // `longest`: no row has more entries.
  __device__ __forceinline__ row_windows(const sorted_csr& A, const Bits* given, const lane_shares<R>& rows,
                                         unsigned longest, window_memory<R, Bits>& memory)
      : A_(A), given_(given), memory_(memory), lane_(static_cast<int>(lane_id())) {
    constexpr int log2_least = R == 1 ? 3 : R == 2 ? 2 : 1;
    static_assert(1 << log2_least == batch_slots<R>);
    const int log2_longest = 32 - __clz(static_cast<int>(max(longest, 1u) - 1));
    log2_width_ = min(max(log2_longest, log2_least), window_memory<R, Bits>::log2_size);
#pragma unroll
    for (int r = 0; r < R; ++r) end_[r] = rows.end[r];
  }

  // Entries of a row.
  __device__ __forceinline__ unsigned width() const { return 1u << log2_width_; }

  // Moves the windows to the entries from `first` on.
  __device__ __forceinline__ void move(const unsigned (&first)[R]) {
    const int entry = lane_ & (static_cast<int>(width()) - 1);
    const int row_of_lane = lane_ >> log2_width_;
    const int rows_at_once = 32 >> log2_width_;
    sync_warp();  // what was there has been read
    for (int i = 0; i < 32; i += batch_slots<R> * rows_at_once) {
      // All loads of a batch are in flight before anything is stored.
      int columns[batch_slots<R>][R];
      [[maybe_unused]] Bits values[batch_slots<R>][R];
#pragma unroll
      for (int u = 0; u < batch_slots<R>; ++u) {
        const int owner = i + u * rows_at_once + row_of_lane;
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const unsigned j = from_lane(first[r], owner) + entry;
          const bool there = j < from_lane(end_[r], owner);
          columns[u][r] = there ? __ldg(A_.indices + j) : -1;
          if constexpr (reads_values) values[u][r] = there ? __ldg(given_ + A_.source(j)) : Bits{0};
        }
      }
#pragma unroll
      for (int u = 0; u < batch_slots<R>; ++u) {
        const int owner = i + u * rows_at_once + row_of_lane;
#pragma unroll
        for (int r = 0; r < R; ++r) {
          memory_.columns[r][owner][entry] = columns[u][r];
          if constexpr (reads_values) memory_.values[r][owner][entry] = values[u][r];
        }
      }
    }
    sync_warp();
  }

  // Of this lane's row r. -1: past the last entry, where the value is zero.
  __device__ __forceinline__ int column(int r, unsigned entry) const { return memory_.columns[r][lane_][entry]; }
  __device__ __forceinline__ Bits value(int r, unsigned entry) const { return memory_.values[r][lane_][entry]; }

 private:
  static constexpr bool reads_values = !std::is_same_v<Bits, no_values>;

  const sorted_csr& A_;
  const Bits* given_;
  window_memory<R, Bits>& memory_;
  int lane_;
  int log2_width_;
  unsigned end_[R];
};

// Goes through the columns of each of a lane's rows on its own.
template <int R, class Bits>
class column_readers {
 public:
  __device__ __forceinline__ column_readers(row_windows<R, Bits>& windows, const lane_shares<R>& rows)
      : windows_(windows) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      at_[r] = first_[r] = rows.begin[r];
      end_[r] = rows.end[r];
    }
    windows_.move(first_);
    look_up();
  }

  // The column of the entry that the reader of row r is at, and its value; -1: past the last.
  __device__ __forceinline__ int column(int r) const { return column_[r]; }
  __device__ __forceinline__ Bits value(int r) const { return windows_.value(r, at_[r] - first_[r]); }
  __device__ __forceinline__ unsigned left(int r) const { return end_[r] - at_[r]; }

  // column() and value() are those of the next entry after finish_step(), which all lanes call.
  __device__ __forceinline__ void advance(int r) { ++at_[r]; }
  __device__ __forceinline__ void finish_step() {
    bool outside = false;
#pragma unroll
    for (int r = 0; r < R; ++r) outside |= at_[r] < end_[r] && at_[r] - first_[r] >= windows_.width();
    if (any_lane(outside)) {
#pragma unroll
      for (int r = 0; r < R; ++r) first_[r] = at_[r];
      windows_.move(first_);
    }
    look_up();
  }

 private:
  __device__ __forceinline__ void look_up() {
#pragma unroll
    for (int r = 0; r < R; ++r) column_[r] = at_[r] < end_[r] ? windows_.column(r, at_[r] - first_[r]) : -1;
  }

  row_windows<R, Bits>& windows_;
  unsigned at_[R];
  unsigned first_[R];  // of the window
  unsigned end_[R];
  int column_[R];
};

// The distance from the diagonal of the slice of the entry that row r of a lane is at.
template <int R, class Bits>
__device__ __forceinline__ int offset_of(const column_readers<R, Bits>& rows, int r, int lane) {
  return rows.column(r) < 0 ? no_offset : rows.column(r) - (r * sell_lanes + lane);
}

// The lowest distance that some row is at.
template <int R, class Bits>
__device__ __forceinline__ int lowest_offset(const column_readers<R, Bits>& rows, int lane) {
  int lowest = no_offset;
#pragma unroll
  for (int r = 0; r < R; ++r) lowest = min(lowest, offset_of(rows, r, lane));
  return warp_minimum(lowest);
}

// The distances of all rows, each as often as the row that has it most often: their number, or -1 if there are more
// than `limit`.
template <int R>
__device__ __forceinline__ std::int64_t count_diagonals(row_windows<R, no_values>& windows,
                                                        const lane_shares<R>& shares, std::int64_t limit, int lane) {
  constexpr int steps_between_looks = 8;
  column_readers<R, no_values> rows(windows, shares);
  for (std::int64_t diagonals = 0;; ++diagonals) {
    if (diagonals % steps_between_looks == 0) {
      unsigned left = 0;  // every entry that is left of one row takes a diagonal of its own
#pragma unroll
      for (int r = 0; r < R; ++r) left = max(left, rows.left(r));
      if (diagonals + warp_maximum(static_cast<int>(left)) > limit) return -1;
    }
    const int lowest = lowest_offset(rows, lane);
    if (lowest == no_offset) return diagonals;
    if (diagonals == limit) return -1;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (offset_of(rows, r, lane) == lowest) rows.advance(r);
    }
    rows.finish_step();
  }
}

// Goes through the slots if the entries of rows are put into slots one after another, `batch_slots` at a time.
template <int R, class Bits>
class slot_reader {
 public:
  __device__ __forceinline__ slot_reader(row_windows<R, Bits>& windows, const lane_shares<R>& rows)
      : windows_(windows), rows_(rows) {}

  // Called with every multiple of batch_slots in turn: the columns of the slots from `slot` on; -1: no entry.
  __device__ __forceinline__ void load_columns(unsigned slot, int (&columns)[batch_slots<R>][R]) {
    entry_ = slot & (windows_.width() - 1);
    if (entry_ == 0) {
      unsigned first[R];
#pragma unroll
      for (int r = 0; r < R; ++r) first[r] = rows_.begin[r] + slot;
      windows_.move(first);
    }
#pragma unroll
    for (int u = 0; u < batch_slots<R>; ++u) {
#pragma unroll
      for (int r = 0; r < R; ++r) columns[u][r] = windows_.column(r, entry_ + u);
    }
  }
  __device__ __forceinline__ Bits value(int u, int r) const { return windows_.value(r, entry_ + u); }

 private:
  row_windows<R, Bits>& windows_;
  const lane_shares<R>& rows_;
  unsigned entry_ = 0;
};

template <int R>
struct measured_segment {
  segment_measures measures;
  unsigned num_entries = 0;
  bool unsorted;  // the same in all lanes; nothing else is valid if it is set

  __device__ __forceinline__ measured_segment(const sorted_csr& A, const lane_shares<R>& rows, int value_size,
                                              window_memory<R, no_values>& memory)
      : unsorted(rows.unsorted) {
    unsigned longest = 0;
    int first = 0x7fffffff;
    int last = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      longest = max(longest, rows.length(r));
      num_entries += rows.length(r);
      if (rows.length(r) == 0) continue;
      first = min(first, __ldg(A.indices + rows.begin[r]));
      last = max(last, __ldg(A.indices + rows.end[r] - 1));
    }
    num_entries = group_sum<32>(num_entries);
    longest = warp_maximum(static_cast<int>(longest));
    measures.longest = longest;
    measures.first = warp_minimum(first);
    measures.last = warp_maximum(last);
    row_windows<R, no_values> windows(A, nullptr, rows, longest, memory);
    go_through(windows, rows, value_size, longest);
    unsorted = any_lane(unsorted);
  }

 private:
  __device__ __forceinline__ void go_through(row_windows<R, no_values>& windows, const lane_shares<R>& rows,
                                             int value_size, unsigned longest) {
    slot_reader<R, no_values> slots(windows, rows);
    const jump_rule jump8(0xff, value_size);
    const jump_rule jump16(0xffff, value_size);
    int before[R];
    unsigned jumps8[R] = {};
    unsigned jumps16[R] = {};
#pragma unroll
    for (int r = 0; r < R; ++r) before[r] = measures.first;
    int widest = 0;
    for (unsigned slot = 0; slot < longest; slot += batch_slots<R>) {
      int columns[batch_slots<R>][R];
      slots.load_columns(slot, columns);
#pragma unroll
      for (int u = 0; u < batch_slots<R>; ++u) {
        int lowest = 0x7fffffff;
        int highest = -1;
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const int column = columns[u][r];
          if (column < 0) continue;
          lowest = min(lowest, column);
          highest = max(highest, column);
          const int gap = column - before[r];
          if (gap < 0) unsorted = true;
          if (gap > jump8.max_code) {
            jumps8[r] += static_cast<unsigned>(jump8.count(gap));
            jumps16[r] += static_cast<unsigned>(jump16.count(gap));
          }
          before[r] = column;
        }
        if (widest < 0xffff) {  // else no encoding by slots is possible
          lowest = warp_minimum(lowest);
          highest = warp_maximum(highest);
          if (highest >= 0) widest = max(widest, highest - lowest);
        }
      }
    }
    unsigned slots8 = 0;
    unsigned slots16 = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      slots8 = max(slots8, rows.length(r) + jumps8[r]);
      slots16 = max(slots16, rows.length(r) + jumps16[r]);
    }
    measures.widest_slot = widest;
    measures.slots_with_jumps8 = warp_maximum(slots8);
    measures.slots_with_jumps16 = warp_maximum(slots16);
  }
};

// What the host reads of the first pass.
struct found_sizes {
  std::int64_t end;  // of all segments, as below
  unsigned unsorted;
  unsigned too_long;
};

// The slots of a segment and the units of its indices in one number, so that one prefix sum adds up both: there are
// fewer than 2^31 slots and 2^32 units in all.
__device__ __forceinline__ std::int64_t size_of_segment(std::int64_t slots, std::int64_t units) {
  return slots << 32 | units;
}

// sizes[num_segments] becomes 0.
template <int R>
__global__ void __launch_bounds__(segment_threads, 16)
    choose_encodings_kernel(const sorted_csr A, int value_size, sell_segment* __restrict__ segments,
                            std::int64_t* __restrict__ sizes, found_sizes* __restrict__ found) {
  __shared__ window_memory<R, no_values> memory[segment_warps];
  const std::int64_t segment = std::int64_t{blockIdx.x} * segment_warps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (segment > A.num_segments) return;
  if (segment == A.num_segments) {
    if (lane == 0) sizes[segment] = 0;
    return;
  }
  const lane_shares<R> rows(A, segment, lane);
  window_memory<R, no_values>& mine = memory[threadIdx.x / 32];
  const measured_segment<R> measured(A, rows, value_size, mine);
  if (measured.unsorted) {
    if (lane == 0) {
      found->unsorted = 1;
      sizes[segment] = 0;
    }
    return;
  }
  encoding_choice best{sell_lanes * R, value_size};
  best.choose(measured.measures);
  if (measured.measures.longest > 0) {
    row_windows<R, no_values> windows(A, nullptr, rows, static_cast<unsigned>(measured.measures.longest), mine);
    const std::int64_t diagonals = count_diagonals(windows, rows, best.most_diagonals(), lane);
    if (diagonals >= 0) best.consider_diagonals(diagonals, measured.num_entries);
  }
  if (lane != 0) return;
  if (best.num_slots > compressed_sell_max_slots) found->too_long = 1;
  segments[segment].num_slots_and_encoding =
      static_cast<std::uint32_t>(best.num_slots * 8 + static_cast<std::int64_t>(best.encoding));
  segments[segment].base = best.base;
  sizes[segment] =
      size_of_segment(best.num_slots, index_bytes(best.encoding, best.num_slots, sell_lanes * R) / sell_index_unit);
}

// R adjacent places of a lane, which are stored at once.
template <class T, int R>
struct alignas(sizeof(T) * R) lane_places {
  T of_row[R];
};

// One lane's places of a segment. Bits is an unsigned integer as wide as a value.
template <class Bits, int R>
struct segment_writer {
  static constexpr unsigned height = sell_lanes * R;
  static constexpr unsigned slot_group = static_cast<unsigned>(sell_slot_group);

  row_windows<R, Bits>& windows;
  unsigned num_slots;
  int lane;
  Bits* values;            // of the segment
  unsigned char* encoded;  // slot bases, presence bits and codes of the segment

  template <class T>
  __device__ __forceinline__ void store(T* of_segment, unsigned slot, const lane_places<T, R>& places) const {
    *reinterpret_cast<lane_places<T, R>*>(of_segment + std::size_t{slot} * height + lane * R) = places;
  }

  __device__ __forceinline__ int* slot_bases() const { return reinterpret_cast<int*>(encoded); }
  __device__ __forceinline__ unsigned whole_groups() const {
    return (num_slots + slot_group - 1) / slot_group * slot_group;
  }
  __device__ __forceinline__ unsigned char* after_slot_bases() const {
    return encoded + std::size_t{whole_groups()} * sizeof(int);
  }
  // Bases of slots past the last one.
  __device__ __forceinline__ void pad_slot_bases() const {
    if (num_slots + lane < whole_groups()) slot_bases()[num_slots + lane] = 0;
  }

  template <bool Full>
  __device__ __forceinline__ void diagonals(const lane_shares<R>& shares) const {
    column_readers<R, Bits> rows(windows, shares);
    lane_places<unsigned char, R> present{};
    for (unsigned slot = 0; slot < num_slots; ++slot) {
      const int lowest = lowest_offset(rows, lane);
      if (lane == 0) slot_bases()[slot] = lowest;
      lane_places<Bits, R> places;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const bool entry = offset_of(rows, r, lane) == lowest;
        places.of_row[r] = entry ? rows.value(r) : Bits{0};
        if (entry) {
          present.of_row[r] |= static_cast<unsigned char>(1u << slot % slot_group);
          rows.advance(r);
        }
      }
      rows.finish_step();
      store(values, slot, places);
      if constexpr (!Full) {
        if (slot % slot_group == slot_group - 1 || slot == num_slots - 1) {
          store(after_slot_bases(), slot / slot_group, present);
          present = {};
        }
      }
    }
    pad_slot_bases();
  }

  // Codes are offsets from the lowest column of their slot, or all from `segment_base`.
  template <bool SlotBases, class Code>
  __device__ __forceinline__ void offsets(const lane_shares<R>& rows, int segment_base) const {
    auto* const codes = reinterpret_cast<Code*>(SlotBases ? after_slot_bases() : encoded);
    slot_reader<R, Bits> slots(windows, rows);
    for (unsigned slot = 0; slot < num_slots; slot += batch_slots<R>) {
      int columns[batch_slots<R>][R];
      slots.load_columns(slot, columns);
      lane_places<Bits, R> places[batch_slots<R>];
#pragma unroll
      for (int u = 0; u < batch_slots<R>; ++u) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          places[u].of_row[r] = slots.value(u, r);
        }
      }
#pragma unroll
      for (int u = 0; u < batch_slots<R>; ++u) {
        if (slot + u >= num_slots) break;
        int base = segment_base;
        if constexpr (SlotBases) {
          base = 0x7fffffff;
#pragma unroll
          for (int r = 0; r < R; ++r) {
            if (columns[u][r] >= 0) base = min(base, columns[u][r]);
          }
          base = warp_minimum(base);
          if (lane == 0) slot_bases()[slot + u] = base;
        }
        lane_places<Code, R> code;
#pragma unroll
        for (int r = 0; r < R; ++r) {
          code.of_row[r] = columns[u][r] >= 0 ? static_cast<Code>(columns[u][r] - base) : static_cast<Code>(-1);
        }
        store(codes, slot + u, code);
        store(values, slot + u, places[u]);
      }
    }
    if constexpr (SlotBases) pad_slot_bases();
  }

  template <class Code>
  __device__ __forceinline__ void deltas(const lane_shares<R>& shares, int segment_base) const {
    const jump_rule jumps(static_cast<Code>(-1), sizeof(Bits));
    auto* const codes = reinterpret_cast<Code*>(encoded);
    column_readers<R, Bits> rows(windows, shares);
    int column[R];
#pragma unroll
    for (int r = 0; r < R; ++r) column[r] = segment_base;
    for (unsigned slot = 0; slot < num_slots; ++slot) {
      lane_places<Code, R> code;
      lane_places<Bits, R> places;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        code.of_row[r] = static_cast<Code>(-1);
        places.of_row[r] = 0;
        if (rows.column(r) < 0) continue;
        const int gap = rows.column(r) - column[r];
        if (gap > jumps.max_code) {
          const int jump = min(gap, jumps.max_jump);
          places.of_row[r] = static_cast<Bits>(jump);
          column[r] += jump;
        } else {
          code.of_row[r] = static_cast<Code>(gap);
          places.of_row[r] = rows.value(r);
          column[r] = rows.column(r);
          rows.advance(r);
        }
      }
      rows.finish_step();
      store(codes, slot, code);
      store(values, slot, places);
    }
  }

  __device__ __forceinline__ void write(sell_encoding encoding, const lane_shares<R>& rows, int base) const {
    switch (encoding) {
      case sell_encoding::full_diagonal:
        return diagonals<true>(rows);
      case sell_encoding::diagonal:
        return diagonals<false>(rows);
      case sell_encoding::slot8:
        return offsets<true, std::uint8_t>(rows, 0);
      case sell_encoding::slice16:
        return offsets<false, std::uint16_t>(rows, base);
      case sell_encoding::slot16:
        return offsets<true, std::uint16_t>(rows, 0);
      case sell_encoding::delta8:
        return deltas<std::uint8_t>(rows, base);
      case sell_encoding::delta16:
        return deltas<std::uint16_t>(rows, base);
      case sell_encoding::plain:
        return offsets<false, std::uint32_t>(rows, 0);
    }
  }
};

// `begins` are the sizes of all segments before each.
template <class Bits, int R>
__global__ void __launch_bounds__(segment_threads)
    write_segments_kernel(const sorted_csr A, const Bits* __restrict__ given, const std::int64_t* __restrict__ begins,
                          sell_segment* __restrict__ segments, unsigned char* __restrict__ indices,
                          Bits* __restrict__ values) {
  __shared__ window_memory<R, Bits> memory[segment_warps];
  const std::int64_t segment = std::int64_t{blockIdx.x} * segment_warps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (segment >= A.num_segments) return;
  const std::int64_t begin = begins[segment];
  const auto first_slot = static_cast<std::int32_t>(begin >> 32);
  const auto first_index = static_cast<std::uint32_t>(begin);
  const std::uint32_t slots_and_encoding = segments[segment].num_slots_and_encoding;
  const std::int32_t base = segments[segment].base;
  if (lane == 0) {
    segments[segment].first_slot = first_slot;
    segments[segment].first_index = first_index;
  }
  const lane_shares<R> rows(A, segment, lane);
  row_windows<R, Bits> windows(A, given, rows, slots_and_encoding >> 3, memory[threadIdx.x / 32]);
  const segment_writer<Bits, R> writer{windows, slots_and_encoding >> 3, lane,
                                       values + std::int64_t{first_slot} * (sell_lanes * R),
                                       indices + std::size_t{first_index} * sell_index_unit};
  writer.write(static_cast<sell_encoding>(slots_and_encoding & 7u), rows, base);
}

// ---- Rows whose columns do not ascend

constexpr int threads_per_row = 8;

__global__ void __launch_bounds__(threads_per_block)
    entry_keys_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ indices,
                      std::int64_t num_rows, int column_bits, std::uint64_t* __restrict__ keys,
                      std::int32_t* __restrict__ positions) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const std::int64_t row = thread / threads_per_row;
  if (row >= num_rows) return;
  const std::int64_t end = indptr[row + 1];
#pragma unroll 4
  for (std::int64_t j = indptr[row] + thread % threads_per_row; j < end; j += threads_per_row) {
    keys[j] = static_cast<std::uint64_t>(row) << column_bits | static_cast<std::uint64_t>(indices[j]);
    positions[j] = static_cast<std::int32_t>(j);
  }
}

__global__ void __launch_bounds__(threads_per_block)
    columns_of_keys_kernel(const std::uint64_t* __restrict__ keys, std::int64_t size, int column_bits,
                           std::int32_t* __restrict__ columns) {
  const std::int64_t j = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (j < size) columns[j] = static_cast<std::int32_t>(keys[j] & ((std::uint64_t{1} << column_bits) - 1));
}

// The columns of every row in ascending order, duplicates as they were, and where each entry was before.
struct sorted_columns {
  pooled_memory columns;
  pooled_memory sources;

  explicit sorted_columns(const device_csr& matrix)
      : columns(matrix.nnz() * sizeof(std::int32_t), matrix.stream()),
        sources(matrix.nnz() * sizeof(std::int32_t), matrix.stream()) {
    const cudaStream_t stream = matrix.stream();
    const std::int64_t nnz = matrix.nnz();
    const int column_bits = bits_for(matrix.num_cols() - 1);
    const int bits = column_bits + bits_for(matrix.num_rows() - 1);
    const pooled_memory keys(2 * nnz * sizeof(std::uint64_t), stream);
    const pooled_memory positions(nnz * sizeof(std::int32_t), stream);
    auto* const sorted_keys = keys.as<std::uint64_t>() + nnz;
    entry_keys_kernel<<<blocks_for(matrix.num_rows() * threads_per_row, threads_per_block), threads_per_block, 0,
                        stream>>>(matrix.indptr32(), matrix.indices(), matrix.num_rows(), column_bits,
                                  keys.as<std::uint64_t>(), positions.as<std::int32_t>());
    check_launch("entry_keys_kernel");
    sort_pairs(keys.as<const std::uint64_t>(), sorted_keys, positions.as<const std::int32_t>(),
               sources.as<std::int32_t>(), nnz, bits, stream);
    columns_of_keys_kernel<<<blocks_for(nnz, threads_per_block), threads_per_block, 0, stream>>>(
        sorted_keys, nnz, column_bits, columns.as<std::int32_t>());
    check_launch("columns_of_keys_kernel");
  }
};

// Calls function(std::integral_constant<int, R>{}) with the number of rows of a lane.
template <class Function>
void with_rows_per_lane(int rows_per_lane, Function function) {
  dispatch_constant<1, 2, 4>(rows_per_lane, function);
}

// All that the host reads: each time it waits costs as much as a kernel.
struct measured_sizes {
  found_sizes found;
  slice_totals totals;
};

// Enqueues the first pass and the prefix sum, whose total is left in `measured`, which follows the sizes of segments.
measured_sizes choose_encodings(const sorted_csr& A, const compressed_sell_options& options, std::size_t value_size,
                                sell_segment* segments, const pooled_memory& sizes, measured_sizes* measured,
                                cudaStream_t stream) {
  auto* const of_segments = sizes.as<std::int64_t>();
  found_sizes* const found = &measured->found;
  WARPLOOM_CUDA_CHECK(cudaMemsetAsync(found, 0, sizeof(found_sizes), stream));
  with_rows_per_lane(options.rows_per_lane, [&](auto rows_per_lane) {
    choose_encodings_kernel<rows_per_lane>
        <<<blocks_for((A.num_segments + 1) * 32, segment_threads), segment_threads, 0, stream>>>(
            A, static_cast<int>(value_size), segments, of_segments, found);
  });
  check_launch("choose_encodings_kernel");
  exclusive_scan(of_segments, of_segments, A.num_segments + 1, stream);
  return read_back(measured, stream);
}

}  // namespace

device_compressed_sell::device_compressed_sell(const device_csr& matrix, const compressed_sell_options& options,
                                               const std::function<void(std::int64_t)>& check_places,
                                               const device_allocator& allocate)
    : num_rows_(matrix.num_rows()),
      num_cols_(matrix.num_cols()),
      nnz_(matrix.nnz()),
      dtype_(matrix.dtype()),
      options_(options),
      stream_(matrix.stream()) {
  check_compressed_sell(num_rows_, options);
  const std::int64_t height = sell_lanes * options.rows_per_lane;
  const bool sorts = options.sort_window > 1 && matrix.summary().shortest_row < matrix.summary().longest_row;
  if (sorts) row_ids_ = rows_by_length(matrix, options.sort_window, allocate);
  const std::int64_t num_segments = (num_rows_ + height - 1) / height * options.parts;
  const pooled_memory sizes(num_segments * sizeof(std::int64_t) + sizeof(measured_sizes), stream_);
  auto* const measured = reinterpret_cast<measured_sizes*>(sizes.as<std::int64_t>() + num_segments);
  measure_slices(matrix, {height, options.parts, row_ids_.data()}, nullptr, &measured->totals);
  const auto check_totals = [&](const slice_totals& totals) {
    const std::int64_t places = static_cast<std::int64_t>(totals.columns) * height;
    check_places(places);
    // No encoding takes more bytes than that of four bytes for each of these places.
    if (places / 4 > std::numeric_limits<std::uint32_t>::max()) {
      throw error(error_kind::index_overflow, "A", -1, "compressed-sell numbers its slots with 31 bits");
    }
  };
  // Where rows are about as long as each other, the first pass does not take long in any case.
  const bool regular = num_rows_ * matrix.summary().longest_row <= 4 * nnz_;
  if (sorts || !regular) {
    const slice_totals totals = read_back(&measured->totals, stream_);
    check_totals(totals);
    if (totals.moved == 0) row_ids_ = {};
  }

  segments_ = {static_cast<std::size_t>(num_segments), allocate};
  sorted_csr A{num_rows_,          num_segments,      std::countr_zero(static_cast<unsigned>(options.parts)),
               row_ids_.data(),    matrix.indptr32(), matrix.indices(),
               /*sources=*/nullptr};
  const auto choose = [&] {
    return choose_encodings(A, options, size_of(dtype_), segments_.data(), sizes, measured, stream_);
  };
  measured_sizes read = choose();
  check_totals(read.totals);
  std::optional<sorted_columns> sorted;
  if (read.found.unsorted != 0) {
    sorted.emplace(matrix);
    A.indices = sorted->columns.as<const std::int32_t>();
    A.sources = sorted->sources.as<const std::int32_t>();
    read = choose();
  }
  const found_sizes& found = read.found;
  if (found.too_long != 0) {
    throw error(error_kind::index_overflow, "A", -1, "compressed-sell needs rows of fewer than 2^29 entries");
  }
  const std::int64_t num_slots = found.end >> 32;
  data_ = {num_slots * height * size_of(dtype_), allocate};
  indices_ = {static_cast<std::size_t>(static_cast<std::uint32_t>(found.end)) * sell_index_unit, allocate};
  if (num_segments == 0) return;
  const auto write = [&]<class Bits>(Bits) {
    with_rows_per_lane(options.rows_per_lane, [&](auto rows_per_lane) {
      write_segments_kernel<Bits, rows_per_lane>
          <<<blocks_for(num_segments * 32, segment_threads), segment_threads, 0, stream_>>>(
              A, matrix.values<Bits>(), sizes.as<const std::int64_t>(), segments_.data(),
              reinterpret_cast<unsigned char*>(indices_.data()), reinterpret_cast<Bits*>(data_.data()));
    });
    check_launch("write_segments_kernel");
  };
  switch (size_of(dtype_)) {
    case 2:
      write(std::uint16_t{});
      break;
    case 4:
      write(std::uint32_t{});
      break;
    default:
      write(static_cast<unsigned long long>(0));
  }
}

device_compressed_sell::device_compressed_sell(const compressed_sell_matrix& matrix, const device_allocator& allocate,
                                               cudaStream_t stream)
    : num_rows_(matrix.num_rows),
      num_cols_(matrix.num_cols),
      nnz_(matrix.nnz()),
      dtype_(matrix.dtype),
      options_(matrix.options),
      segments_(upload(matrix.segments.data(), matrix.segments.size(), allocate, stream)),
      indices_(upload(matrix.indices.data(), matrix.indices.size(), allocate, stream)),
      data_(upload(matrix.data.data(), matrix.data.size(), allocate, stream)),
      row_ids_(upload(matrix.row_ids.data(), matrix.row_ids.size(), allocate, stream)) {}

compressed_sell_matrix device_compressed_sell::download() const {
  compressed_sell_matrix result;
  result.num_rows = num_rows_;
  result.num_cols = num_cols_;
  result.dtype = dtype_;
  result.options = options_;
  result.num_entries = nnz_;
  result.segments.resize(segments_.size());
  result.indices.resize(indices_.size());
  result.data.resize(data_.size());
  result.row_ids.resize(row_ids_.size());
  const auto copy = [&](auto& host, const auto& array) {
    if (!host.empty()) copy_to_host(host.data(), array.data(), array.bytes(), stream_);
  };
  copy(result.segments, segments_);
  copy(result.indices, indices_);
  copy(result.data, data_);
  copy(result.row_ids, row_ids_);
  return result;
}

}  // namespace warploom::cuda
