// Two passes over the slices, both parallel: the first chooses an encoding and the number of slots of every segment,
// the second writes them where a prefix sum over the segments has put them.
#include "warploom/formats/compressed_sell.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "device/cuda_function.hpp"
#include "kernels/compressed_sell/encoding.hpp"
#include "kernels/compressed_sell/options.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

convert_on_gpu_function compressed_sell_from_csr_on_gpu;

namespace {

constexpr std::int64_t grain = 64;  // slices that are worth a thread

// The rows by descending length within every window, rows of one length in their given order; empty if they all stay.
std::vector<std::int32_t> sort_rows(const csr_pattern& matrix, std::int64_t window) {
  const auto shorter = [&](std::int32_t a, std::int32_t b) { return matrix.row_length(a) > matrix.row_length(b); };
  std::vector<std::int32_t> order;
  if (window == 1) return order;
  order.resize(matrix.num_rows);
  std::iota(order.begin(), order.end(), 0);
  parallel_for(0, (matrix.num_rows + window - 1) / window, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      const auto first = order.begin() + w * window;
      const auto last = order.begin() + std::min(matrix.num_rows, (w + 1) * window);
      if (!std::is_sorted(first, last, shorter)) std::stable_sort(first, last, shorter);
    }
  });
  if (std::is_sorted(order.begin(), order.end())) order.clear();
  return order;
}

// Which entries of a row of `length` entries belong to part `part`: from share_begin(part) to share_begin(part + 1).
std::int64_t share_begin(std::int64_t length, int part, int parts) { return length * part / parts; }

// The entries of one row in one segment, columns ascending.
struct row_share {
  std::span<const std::int32_t> columns;
  const std::int64_t* order = nullptr;  // where their values are in the matrix; null: from `first` on
  std::int64_t first = 0;

  std::int64_t source(std::int64_t k) const { return order ? order[k] : first + k; }
};

// The rows of a slice, each by ascending column, and their entries in one part.
class slice_rows {
 public:
  slice_rows(const csr_pattern& matrix, const compressed_sell_options& options, std::span<const std::int32_t> row_ids)
      : matrix_(matrix),
        parts_(options.parts),
        height_(sell_lanes * options.rows_per_lane),
        row_ids_(row_ids),
        rows_(height_),
        shares_(height_) {}

  void load(std::int64_t slice) {
    const std::int64_t first = slice * height_;
    const std::int64_t end = std::min(matrix_.num_rows, first + height_);
    const auto row_at = [&](std::int64_t p) { return row_ids_.empty() ? p : row_ids_[p]; };
    std::int64_t total = 0;
    for (std::int64_t p = first; p < end; ++p) total += matrix_.row_length(row_at(p));
    // Reserved at once: the rows refer to what is in these arrays.
    sorted_columns_.clear();
    sorted_columns_.reserve(total);
    orders_.clear();
    orders_.reserve(total);
    std::fill(rows_.begin(), rows_.end(), row_share{});
    for (std::int64_t p = first; p < end; ++p) rows_[p - first] = load_row(row_at(p));
  }

  std::span<const row_share> part(int part) {
    for (int p = 0; p < height_; ++p) {
      const row_share& row = rows_[p];
      const auto length = static_cast<std::int64_t>(row.columns.size());
      const std::int64_t begin = share_begin(length, part, parts_);
      const std::int64_t end = share_begin(length, part + 1, parts_);
      shares_[p] = {row.columns.subspan(begin, end - begin), row.order ? row.order + begin : nullptr,
                    row.first + begin};
    }
    return shares_;
  }

 private:
  row_share load_row(std::int64_t row) {
    const std::int64_t begin = matrix_.indptr[row];
    const std::int64_t length = matrix_.row_length(row);
    const std::span<const std::int32_t> given(matrix_.indices + begin, length);
    if (std::is_sorted(given.begin(), given.end())) return {given, nullptr, begin};
    const std::size_t offset = orders_.size();
    orders_.resize(offset + length);
    const std::span<std::int64_t> order(orders_.data() + offset, length);
    std::iota(order.begin(), order.end(), begin);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return matrix_.indices[a] < matrix_.indices[b]; });
    for (const std::int64_t j : order) sorted_columns_.push_back(matrix_.indices[j]);
    return {{sorted_columns_.data() + offset, static_cast<std::size_t>(length)}, order.data(), 0};
  }

  const csr_pattern& matrix_;
  int parts_;
  int height_;
  std::span<const std::int32_t> row_ids_;
  std::vector<row_share> rows_;
  std::vector<row_share> shares_;
  std::vector<std::int32_t> sorted_columns_;
  std::vector<std::int64_t> orders_;
};

// The columns of a row as distances from the diagonal of the slice: ascending, with duplicates.
std::int32_t offset_of(std::int32_t column, std::size_t position) {
  return column - static_cast<std::int32_t>(position);
}

// The distances of all rows, each as often as the row that has it most often. Gives up with false as soon as there are
// more than `limit`.
bool collect_diagonals(std::span<const row_share> rows, std::int64_t limit, std::vector<std::int32_t>& diagonals) {
  std::vector<std::int32_t> merged;
  diagonals.clear();
  for (std::size_t p = 0; p < rows.size(); ++p) {
    std::size_t d = 0;
    bool known = true;
    for (const std::int32_t column : rows[p].columns) {
      const std::int32_t offset = offset_of(column, p);
      while (d < diagonals.size() && diagonals[d] < offset) ++d;
      known = d < diagonals.size() && diagonals[d] == offset;
      if (!known) break;
      ++d;
    }
    if (known) continue;
    std::vector<std::int32_t> offsets;
    offsets.reserve(rows[p].columns.size());
    for (const std::int32_t column : rows[p].columns) offsets.push_back(offset_of(column, p));
    merged.clear();
    std::set_union(diagonals.begin(), diagonals.end(), offsets.begin(), offsets.end(), std::back_inserter(merged));
    diagonals.swap(merged);
    if (static_cast<std::int64_t>(diagonals.size()) > limit) return false;
  }
  return true;
}

// Chooses the encoding of a segment. Keeps its arrays from one segment to the next.
class chooser {
 public:
  chooser(int height, std::size_t value_size)
      : jumps8_(std::numeric_limits<std::uint8_t>::max(), value_size),
        jumps16_(std::numeric_limits<std::uint16_t>::max(), value_size),
        best_{height, static_cast<std::int64_t>(value_size)} {}

  encoding_choice choose(std::span<const row_share> rows) {
    measure(rows);
    best_.choose(measures_);
    if (measures_.longest > 0 && collect_diagonals(rows, best_.most_diagonals(), diagonals_)) {
      best_.consider_diagonals(static_cast<std::int64_t>(diagonals_.size()), num_entries_);
    }
    return best_;
  }

 private:
  void measure(std::span<const row_share> rows) {
    measures_ = {};
    num_entries_ = 0;
    measures_.first = std::numeric_limits<std::int32_t>::max();
    for (const row_share& row : rows) {
      if (row.columns.empty()) continue;
      measures_.longest = std::max(measures_.longest, static_cast<std::int64_t>(row.columns.size()));
      num_entries_ += static_cast<std::int64_t>(row.columns.size());
      measures_.first = std::min(measures_.first, row.columns.front());
      measures_.last = std::max(measures_.last, row.columns.back());
    }
    lowest_.assign(measures_.longest, std::numeric_limits<std::int32_t>::max());
    highest_.assign(measures_.longest, 0);
    for (const row_share& row : rows) measure(row);
    for (std::int64_t slot = 0; slot < measures_.longest; ++slot) {
      measures_.widest_slot = std::max(measures_.widest_slot, highest_[slot] - lowest_[slot]);
    }
  }

  void measure(const row_share& row) {
    std::int32_t column = measures_.first;
    auto slots8 = static_cast<std::int64_t>(row.columns.size());
    auto slots16 = slots8;
    for (std::size_t k = 0; k < row.columns.size(); ++k) {
      const std::int32_t next = row.columns[k];
      lowest_[k] = std::min(lowest_[k], next);
      highest_[k] = std::max(highest_[k], next);
      const std::int32_t gap = next - column;
      if (gap > jumps8_.max_code) {
        slots8 += jumps8_.count(gap);
        slots16 += jumps16_.count(gap);
      }
      column = next;
    }
    measures_.slots_with_jumps8 = std::max(measures_.slots_with_jumps8, slots8);
    measures_.slots_with_jumps16 = std::max(measures_.slots_with_jumps16, slots16);
  }

  jump_rule jumps8_;
  jump_rule jumps16_;
  segment_measures measures_;
  std::int64_t num_entries_ = 0;
  std::vector<std::int32_t> lowest_;   // column of every slot if row entries are put into slots one after another
  std::vector<std::int32_t> highest_;  // likewise
  std::vector<std::int32_t> diagonals_;
  encoding_choice best_;
};

// Writes the places of a segment. Bits is an unsigned integer as wide as a value.
template <class Bits>
class segment_writer {
 public:
  segment_writer(const csr_view& matrix, compressed_sell_matrix& result)
      : given_(static_cast<const Bits*>(matrix.data)),
        result_(result),
        height_(result.slice_height()),
        rows_per_lane_(result.options.rows_per_lane) {}

  void write(const sell_segment& segment, std::span<const row_share> rows) {
    num_slots_ = segment.num_slots();
    if (num_slots_ == 0) return;
    values_ = reinterpret_cast<Bits*>(result_.data.data()) + segment.first_slot * std::int64_t{height_};
    std::byte* indices = result_.indices.data() + segment.first_index * sell_index_unit;
    slot_bases_ = reinterpret_cast<std::int32_t*>(indices);
    std::byte* after_bases = indices + detail::round_up(num_slots_, sell_slot_group) * sizeof(std::int32_t);
    switch (segment.encoding()) {
      case sell_encoding::full_diagonal:
        return write_diagonals(rows, nullptr);
      case sell_encoding::diagonal:
        return write_diagonals(rows, reinterpret_cast<std::uint8_t*>(after_bases));
      case sell_encoding::slot8:
        return write_slots(rows, reinterpret_cast<std::uint8_t*>(after_bases));
      case sell_encoding::slot16:
        return write_slots(rows, reinterpret_cast<std::uint16_t*>(after_bases));
      case sell_encoding::slice16:
        return write_offsets(rows, reinterpret_cast<std::uint16_t*>(indices),
                             [&](std::int64_t) { return segment.base; });
      case sell_encoding::delta8:
        return write_deltas(rows, reinterpret_cast<std::uint8_t*>(indices), segment.base);
      case sell_encoding::delta16:
        return write_deltas(rows, reinterpret_cast<std::uint16_t*>(indices), segment.base);
      case sell_encoding::plain:
        return write_offsets(rows, reinterpret_cast<std::uint32_t*>(indices), [](std::int64_t) { return 0; });
    }
  }

 private:
  std::int64_t place(std::int64_t slot, std::size_t position) const {
    return slot * height_ + sell_place(static_cast<int>(position), rows_per_lane_);
  }

  void write_diagonals(std::span<const row_share> rows, std::uint8_t* present) {
    collect_diagonals(rows, num_slots_, diagonals_);
    std::copy(diagonals_.begin(), diagonals_.end(), slot_bases_);
    for (std::size_t p = 0; p < rows.size(); ++p) {
      std::int64_t slot = 0;
      for (std::size_t k = 0; k < rows[p].columns.size(); ++k, ++slot) {
        while (diagonals_[slot] < offset_of(rows[p].columns[k], p)) ++slot;
        values_[place(slot, p)] = given_[rows[p].source(k)];
        if (present) present[place(slot / 8, p)] |= static_cast<std::uint8_t>(1u << slot % 8);
      }
    }
  }

  template <class Code>
  void write_slots(std::span<const row_share> rows, Code* codes) {
    std::fill(slot_bases_, slot_bases_ + num_slots_, std::numeric_limits<std::int32_t>::max());
    for (const row_share& row : rows) {
      for (std::size_t k = 0; k < row.columns.size(); ++k) slot_bases_[k] = std::min(slot_bases_[k], row.columns[k]);
    }
    write_offsets(rows, codes, [&](std::int64_t slot) { return slot_bases_[slot]; });
  }

  template <class Code, class Base>
  void write_offsets(std::span<const row_share> rows, Code* codes, Base base) {
    std::fill(codes, codes + num_slots_ * height_, Code(-1));
    for (std::size_t p = 0; p < rows.size(); ++p) {
      for (std::size_t k = 0; k < rows[p].columns.size(); ++k) {
        codes[place(k, p)] = static_cast<Code>(rows[p].columns[k] - base(k));
        values_[place(k, p)] = given_[rows[p].source(k)];
      }
    }
  }

  template <class Code>
  void write_deltas(std::span<const row_share> rows, Code* codes, std::int32_t base) {
    const jump_rule jumps(Code(-1), sizeof(Bits));
    std::fill(codes, codes + num_slots_ * height_, Code(-1));
    for (std::size_t p = 0; p < rows.size(); ++p) {
      std::int32_t column = base;
      std::int64_t slot = 0;
      for (std::size_t k = 0; k < rows[p].columns.size(); ++k, ++slot) {
        std::int32_t gap = rows[p].columns[k] - column;
        column = rows[p].columns[k];
        for (; gap > jumps.max_code; ++slot) {
          const std::int32_t jump = std::min(gap, jumps.max_jump);
          values_[place(slot, p)] = static_cast<Bits>(jump);
          gap -= jump;
        }
        codes[place(slot, p)] = static_cast<Code>(gap);
        values_[place(slot, p)] = given_[rows[p].source(k)];
      }
    }
  }

  const Bits* given_;
  compressed_sell_matrix& result_;
  int height_;
  int rows_per_lane_;
  std::int64_t num_slots_ = 0;
  Bits* values_ = nullptr;
  std::int32_t* slot_bases_ = nullptr;
  std::vector<std::int32_t> diagonals_;
};

// The first pass: encodings, numbers of slots and bases, but not yet where the segments begin.
void choose_encodings(const csr_view& matrix, compressed_sell_matrix& result) {
  const int parts = result.options.parts;
  parallel_for(0, result.num_slices(), grain, [&](std::int64_t begin, std::int64_t end) {
    slice_rows rows(matrix, result.options, result.row_ids);
    chooser choices(result.slice_height(), size_of(matrix.dtype));
    for (std::int64_t slice = begin; slice < end; ++slice) {
      rows.load(slice);
      for (int part = 0; part < parts; ++part) {
        const encoding_choice choice = choices.choose(rows.part(part));
        if (choice.num_slots > compressed_sell_max_slots) {
          throw error(error_kind::index_overflow, "A", -1, "compressed-sell needs rows of fewer than 2^29 entries");
        }
        sell_segment& segment = result.segments[slice * parts + part];
        segment.num_slots_and_encoding =
            static_cast<std::uint32_t>(choice.num_slots * 8 + static_cast<std::int64_t>(choice.encoding));
        segment.base = choice.base;
      }
    }
  });
}

void place_segments(compressed_sell_matrix& result) {
  std::int64_t slots = 0;
  std::int64_t index_units = 0;
  for (sell_segment& segment : result.segments) {
    segment.first_slot = static_cast<std::int32_t>(slots);
    segment.first_index = static_cast<std::uint32_t>(index_units);
    slots += segment.num_slots();
    index_units += index_bytes(segment.encoding(), segment.num_slots(), result.slice_height()) / sell_index_unit;
    if (slots > std::numeric_limits<std::int32_t>::max() || index_units > std::numeric_limits<std::uint32_t>::max()) {
      throw error(error_kind::index_overflow, "A", -1, "compressed-sell numbers its slots with 31 bits");
    }
  }
  result.data.resize(slots * result.slice_height() * size_of(result.dtype));
  result.indices.resize(index_units * sell_index_unit);
}

template <class Bits>
void write_segments(const csr_view& matrix, compressed_sell_matrix& result) {
  const int parts = result.options.parts;
  parallel_for(0, result.num_slices(), grain, [&](std::int64_t begin, std::int64_t end) {
    slice_rows rows(matrix, result.options, result.row_ids);
    segment_writer<Bits> writer(matrix, result);
    for (std::int64_t slice = begin; slice < end; ++slice) {
      rows.load(slice);
      for (int part = 0; part < parts; ++part) writer.write(result.segments[slice * parts + part], rows.part(part));
    }
  });
}

// Calls visit(row, place, column) for every entry of some slices; those of a row by ascending column.
template <class Visit>
void for_each_entry_of_slices(const compressed_sell_matrix& matrix, std::int64_t begin, std::int64_t end, Visit visit) {
  for (std::int64_t s = begin * matrix.options.parts; s < end * matrix.options.parts; ++s) {
    const std::int64_t first_row = s / matrix.options.parts * matrix.slice_height();
    for_each_entry(matrix, matrix.segments[s], [&](int position, std::int64_t place, std::int32_t column) {
      visit(matrix.row_of(first_row + position), place, column);
    });
  }
}

named_counts encoding_counts(const compressed_sell_matrix& matrix) {
  named_counts counts;
  const auto segments = matrix.segments_by_encoding();
  for (std::size_t e = 0; e < segments.size(); ++e) counts.push_back({sell_encoding_names[e], {segments[e]}});
  return counts;
}

}  // namespace

void check_compressed_sell(std::int64_t num_rows, const compressed_sell_options& options) {
  const auto check = [](const char* name, int value, std::initializer_list<int> accepted) {
    if (std::find(accepted.begin(), accepted.end(), value) != accepted.end()) return;
    std::string text;
    for (const int v : accepted) text += (text.empty() ? "" : ", ") + std::to_string(v);
    throw error(error_kind::parameter, name, -1,
                std::string(name) + " must be one of " + text + ", got " + std::to_string(value));
  };
  check("rows_per_lane", options.rows_per_lane, {1, 2, 4});
  check("parts", options.parts, {1, 2, 4, 8});
  if (options.sort_window < 1) {
    throw error(error_kind::parameter, "sort_window", -1,
                "sort_window must be at least 1, got " + std::to_string(options.sort_window));
  }
  if (num_rows > std::numeric_limits<std::int32_t>::max()) {
    throw error(error_kind::index_overflow, "A", -1, "compressed-sell needs fewer than 2^31 rows");
  }
}

std::size_t compressed_sell_matrix::bytes() const {
  return segments.size() * sizeof(segments[0]) + indices.size() + data.size() + row_ids.size() * sizeof(row_ids[0]);
}

std::array<std::int64_t, 8> compressed_sell_matrix::segments_by_encoding() const {
  std::array<std::int64_t, 8> counts{};
  for (const sell_segment& segment : segments) {
    counts[static_cast<std::size_t>(segment.encoding())] += segment.num_slots() > 0;
  }
  return counts;
}

std::int64_t compressed_sell_places(const csr_pattern& matrix, const compressed_sell_options& options) {
  check_compressed_sell(matrix.num_rows, options);
  const std::vector<std::int32_t> row_ids = sort_rows(matrix, options.sort_window);
  const std::int64_t height = sell_lanes * options.rows_per_lane;
  std::int64_t places = 0;
  for (std::int64_t first = 0; first < matrix.num_rows; first += height) {
    std::int64_t longest = 0;
    for (std::int64_t p = first; p < std::min(matrix.num_rows, first + height); ++p) {
      longest = std::max(longest, matrix.row_length(row_ids.empty() ? p : row_ids[p]));
    }
    // The maximum segment lengths of the parts add up to more than the row: each is rounded up.
    places += detail::round_up(longest, options.parts) * height;
  }
  return places;
}

compressed_sell_matrix to_compressed_sell(const csr_view& matrix, const compressed_sell_options& options) {
  check_compressed_sell(matrix.num_rows, options);
  compressed_sell_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.options = options;
  result.num_entries = matrix.nnz();
  result.row_ids = sort_rows(matrix, options.sort_window);
  result.segments.resize(result.num_slices() * options.parts);
  choose_encodings(matrix, result);
  place_segments(result);
  if (size_of(matrix.dtype) == 2) {
    write_segments<std::uint16_t>(matrix, result);
  } else if (size_of(matrix.dtype) == 4) {
    write_segments<std::uint32_t>(matrix, result);
  } else {
    write_segments<std::uint64_t>(matrix, result);
  }
  return result;
}

csr_matrix to_csr(const compressed_sell_matrix& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  // A row is in one slice, so no two threads meet at one.
  const auto for_each = [&](auto visit) {
    parallel_for(0, matrix.num_slices(), grain,
                 [&](std::int64_t begin, std::int64_t end) { for_each_entry_of_slices(matrix, begin, end, visit); });
  };
  for_each([&](std::int64_t row, std::int64_t, std::int32_t) { ++result.indptr[row + 1]; });
  std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
  const std::size_t value_size = size_of(matrix.dtype);
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * value_size);
  std::vector<std::int64_t> next(result.indptr.begin(), result.indptr.end() - 1);
  for_each([&](std::int64_t row, std::int64_t place, std::int32_t column) {
    const std::int64_t j = next[row]++;
    result.indices[j] = column;
    std::memcpy(result.data.data() + j * value_size, matrix.data.data() + place * value_size, value_size);
  });
  return result;
}

std::vector<format_field> compressed_sell_matrix::fields() const {
  return {
      {"rows_per_lane", std::int64_t{options.rows_per_lane}},
      {"sort_window", std::int64_t{options.sort_window}},
      {"parts", std::int64_t{options.parts}},
      {"encodings", [this] { return encoding_counts(*this); }},
      {"segments", records_of<std::uint32_t>(segments)},
      {"indices", array_of(indices)},
      {"data", array_of(data, dtype)},
      {"row_ids", array_of(row_ids)},
  };
}

format_description compressed_sell_format() {
  return {
      .name = "compressed-sell",
      .options = {{"rows_per_lane", 2, {1, 2, 4}}, {"sort_window", 1, {1, 64}}, {"parts", 1, {1, 2, 8}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_compressed_sell(
                matrix, {options.integer("rows_per_lane"), options.integer("sort_window"), options.integer("parts")}));
          },
      .from_csr_on_gpu = WARPLOOM_CUDA(compressed_sell_from_csr_on_gpu),
  };
}

}  // namespace warploom
