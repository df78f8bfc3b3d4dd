#include "warploom/formats/cmrs.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr int max_packed_height = 1 << cmrs_matrix::row_bits;
constexpr int max_height = 256;                // rows of a strip that one byte can number
constexpr std::int64_t rows_per_range = 4096;  // of the parallel loops

void check_range(const char* argument, std::int64_t value, int most, const std::string& remark) {
  if (value >= 1 && value <= most) return;
  throw error(
      error_kind::parameter, argument, -1,
      std::string(argument) + " must be from 1 to " + std::to_string(most) + remark + ", got " + std::to_string(value));
}

void check_modulo(std::int64_t modulo) { check_range("modulo", modulo, cmrs_matrix::group_size, ""); }

void check(const cmrs_options& options, std::int64_t num_cols) {
  if (options.packed) {
    check_range("height", options.height, max_packed_height, " in the packed form");
  } else {
    check_range("height", options.height, max_height, "");
  }
  if (options.modulo != 0) check_modulo(options.modulo);
  if (options.modulo != 0 && options.sort_columns) {
    throw error(error_kind::parameter, "sort_columns", -1,
                "sort_columns and modulo both fix the order of the entries of a strip; give one of them");
  }
  if (options.packed && num_cols > cmrs_packed_columns(options)) {
    throw error(error_kind::index_overflow, "packed", -1,
                "the packed form has 28 bits for a column, enough for " + std::to_string(cmrs_packed_columns(options)) +
                    " columns, and the matrix has " + std::to_string(num_cols) +
                    "; the unpacked form (packed=False) holds it");
  }
}

std::int64_t count_strips(std::int64_t num_rows, int height) { return (num_rows + height - 1) / height; }

// Minimum number of groups of 32 that hold the rows [first, last) with at most `modulo` entries of each row in a group.
// That many suffice: distributed evenly, every group gets at most ceil(length / groups) <= modulo entries of a row.
std::int64_t count_groups(const csr_pattern& matrix, std::int64_t first, std::int64_t last, int modulo) {
  const std::int64_t entries = matrix.indptr[last] - matrix.indptr[first];
  std::int64_t longest = 0;
  for (std::int64_t row = first; row < last; ++row) longest = std::max(longest, matrix.row_length(row));
  return std::max((entries + cmrs_matrix::group_size - 1) / cmrs_matrix::group_size, (longest + modulo - 1) / modulo);
}

std::vector<std::int64_t> place_strips(const csr_pattern& matrix, const cmrs_options& options) {
  const std::int64_t strips = count_strips(matrix.num_rows, options.height);
  std::vector<std::int64_t> strip_ptr(strips + 1, 0);
  parallel_for(0, strips, rows_per_range / options.height + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t strip = begin; strip < end; ++strip) {
      const std::int64_t first = strip * options.height;
      const std::int64_t last = std::min(matrix.num_rows, first + options.height);
      strip_ptr[strip + 1] = options.modulo == 0
                                 ? matrix.indptr[last]
                                 : count_groups(matrix, first, last, options.modulo) * cmrs_matrix::group_size;
    }
  });
  if (options.modulo != 0) std::partial_sum(strip_ptr.begin(), strip_ptr.end(), strip_ptr.begin());
  return strip_ptr;
}

// Writes entries of a CSR matrix to places of a CMRS matrix.
template <class Value>
class strip_writer {
 public:
  strip_writer(const csr_view& from, cmrs_matrix& to)
      : from_(from), to_(to), in_(from.values<Value>()), out_(reinterpret_cast<Value*>(to.data.data())) {}

  void write(std::int64_t strip) {
    const std::int64_t first = strip * to_.options.height;
    const std::int64_t last = std::min(from_.num_rows, first + to_.options.height);
    if (to_.options.modulo != 0) {
      write_groups(first, last, to_.strip_ptr[strip], to_.strip_ptr[strip + 1]);
    } else if (to_.options.sort_columns) {
      write_by_column(first, last);
    } else {
      for (std::int64_t row = first; row < last; ++row) {
        for (std::int64_t j = from_.indptr[row]; j < from_.indptr[row + 1]; ++j) put(j, j, row - first);
      }
    }
  }

 private:
  void put(std::int64_t place, std::int64_t j, std::int64_t row_in_strip) {
    const std::int32_t column = from_.indices[j];
    if (to_.options.packed) {
      to_.words[place] = static_cast<std::uint32_t>(column) << cmrs_matrix::row_bits | row_in_strip;
    } else {
      to_.indices[place] = column;
      to_.row_in_strip[place] = static_cast<std::uint8_t>(row_in_strip);
    }
    out_[place] = in_[j];
  }

  void write_by_column(std::int64_t first, std::int64_t last) {
    order_.clear();
    for (std::int64_t j = from_.indptr[first]; j < from_.indptr[last]; ++j) order_.push_back({from_.indices[j], j});
    std::sort(order_.begin(), order_.end());  // equal columns by their place in CSR
    std::int64_t place = from_.indptr[first];
    for (const auto& [column, j] : order_) {
      const auto* next_row = std::upper_bound(from_.indptr + first, from_.indptr + last, j);
      put(place++, j, next_row - (from_.indptr + first) - 1);
    }
  }

  // Distributes the entries of each row evenly over all groups. The remainder of the division goes to one group after
  // the other, and the next row continues where this one stopped, so that the groups are filled evenly too.
  void write_groups(std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t end) {
    const std::int64_t groups = (end - begin) / cmrs_matrix::group_size;
    if (groups == 0) return;
    std::int64_t surplus_group = 0;
    used_.assign(groups, 0);
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t share = from_.row_length(row) / groups;
      const std::int64_t surplus = from_.row_length(row) % groups;
      std::int64_t j = from_.indptr[row];
      for (std::int64_t group = 0; group < groups; ++group) {
        const std::int64_t turn = group >= surplus_group ? group - surplus_group : group + groups - surplus_group;
        for (std::int64_t count = share + (turn < surplus); count > 0; --count) {
          put(begin + group * cmrs_matrix::group_size + used_[group]++, j++, row - first);
        }
      }
      surplus_group = (surplus_group + surplus) % groups;
    }
  }

  const csr_view& from_;
  cmrs_matrix& to_;
  const Value* in_;
  Value* out_;
  std::vector<std::pair<std::int32_t, std::int64_t>> order_;
  std::vector<int> used_;  // places of each group that are filled
};

void allocate_places(cmrs_matrix& matrix) {
  const std::int64_t places = matrix.num_places();
  if (matrix.options.packed) {
    matrix.words.assign(places, cmrs_matrix::empty_word);
  } else {
    matrix.indices.assign(places, cmrs_matrix::empty_column);
    matrix.row_in_strip.resize(places);
  }
  matrix.data.resize(places * size_of(matrix.dtype));
}

template <bool Packed, class Value>
void read_strips(const cmrs_matrix& from, csr_matrix& to) {
  const int height = from.options.height;
  const std::int64_t grain = rows_per_range / height + 1;
  parallel_for(0, from.num_strips(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t strip = begin; strip < end; ++strip) {
      std::int64_t* lengths = to.indptr.data() + strip * height + 1;
      for_each_entry<Packed>(from, from.strip_ptr[strip], from.strip_ptr[strip + 1],
                             [&](std::int64_t, std::int32_t, std::uint32_t row) { ++lengths[row]; });
    }
  });
  std::partial_sum(to.indptr.begin(), to.indptr.end(), to.indptr.begin());

  const auto* in = reinterpret_cast<const Value*>(from.data.data());
  auto* out = reinterpret_cast<Value*>(to.data.data());
  parallel_for(0, from.num_strips(), grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, max_height> next;
    for (std::int64_t strip = begin; strip < end; ++strip) {
      const std::int64_t first = strip * height;
      std::copy(to.indptr.begin() + first, to.indptr.begin() + std::min(to.num_rows, first + height), next.begin());
      for_each_entry<Packed>(from, from.strip_ptr[strip], from.strip_ptr[strip + 1],
                             [&](std::int64_t j, std::int32_t column, std::uint32_t row) {
                               to.indices[next[row]] = column;
                               out[next[row]++] = in[j];
                             });
    }
  });
}

// What unpack(word) gives for each place of a packed matrix; `empty` for empty places.
template <class Value, class Unpack>
stored_array unpacked(const cmrs_matrix& matrix, Value empty, Unpack unpack) {
  const bool may_be_empty = matrix.options.modulo > 0;
  std::vector<Value> places(matrix.words.size());
  std::transform(matrix.words.begin(), matrix.words.end(), places.begin(), [&](std::uint32_t word) {
    return may_be_empty && word == cmrs_matrix::empty_word ? empty : static_cast<Value>(unpack(word));
  });
  return array_for_caller(std::move(places));
}

stored_array unpacked_columns(const cmrs_matrix& matrix) {
  return unpacked(matrix, cmrs_matrix::empty_column, [](std::uint32_t word) { return word >> cmrs_matrix::row_bits; });
}

stored_array unpacked_rows(const cmrs_matrix& matrix) {
  return unpacked(matrix, std::uint8_t{0}, [](std::uint32_t word) { return word % (1u << cmrs_matrix::row_bits); });
}

}  // namespace

std::size_t cmrs_matrix::bytes() const {
  return strip_ptr.size() * sizeof(strip_ptr[0]) + words.size() * sizeof(words[0]) +
         indices.size() * sizeof(indices[0]) + row_in_strip.size() + data.size();
}

std::int64_t cmrs_packed_columns(const cmrs_options& options) {
  const std::int64_t all = std::int64_t{1} << (32 - cmrs_matrix::row_bits);
  return options.modulo == 0 ? all : all - 1;
}

std::int64_t cmrs_places(const csr_pattern& matrix, const cmrs_options& options) {
  return options.modulo == 0 ? matrix.nnz() : place_strips(matrix, options).back();
}

cmrs_matrix to_cmrs(const csr_view& matrix, const cmrs_options& options) {
  check(options, matrix.num_cols);
  cmrs_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.num_entries = matrix.nnz();
  result.dtype = matrix.dtype;
  result.options = options;
  result.strip_ptr = place_strips(matrix, options);
  allocate_places(result);
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) {
    parallel_for(0, result.num_strips(), rows_per_range / options.height + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   strip_writer<Value> writer(matrix, result);
                   for (std::int64_t strip = begin; strip < end; ++strip) writer.write(strip);
                 });
  });
  return result;
}

csr_matrix to_csr(const cmrs_matrix& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * size_of(matrix.dtype));
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) {
    matrix.options.packed ? read_strips<true, Value>(matrix, result) : read_strips<false, Value>(matrix, result);
  });
  return result;
}

std::vector<format_field> cmrs_matrix::fields() const {
  std::vector<format_field> result{
      {"height", std::int64_t{options.height}},
      {"packed", options.packed},
      {"sort_columns", options.sort_columns},
      {"modulo", options.modulo == 0 ? field_value{} : field_value{std::int64_t{options.modulo}}},
      {"strip_ptr", array_of(strip_ptr)},
      {"words", array_of(words)},
      {"data", array_of(data, dtype)},
  };
  if (options.packed) {
    result.push_back({"indices", [this] { return unpacked_columns(*this); }});
    result.push_back({"row_in_strip", [this] { return unpacked_rows(*this); }});
  } else {
    result.push_back({"indices", array_of(indices)});
    result.push_back({"row_in_strip", array_of(row_in_strip)});
  }
  return result;
}

format_description cmrs_format() {
  return {
      .name = "cmrs",
      .options = {{"height", 8, {1, 2, 8}},
                  {"packed", true, {false, true}},
                  {"sort_columns", false, {false, true}},
                  {"modulo", {}, {{}, 1, 32}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            const std::optional<std::int64_t> modulo = options.optional_integer("modulo");
            if (modulo) check_modulo(*modulo);
            return stored(to_cmrs(matrix, {options.integer("height"), options.flag("packed"),
                                           options.flag("sort_columns"), static_cast<int>(modulo.value_or(0))}));
          },
  };
}

}  // namespace warploom
