#include "warploom/formats/dasp.hpp"

#include <numeric>
#include <utility>

#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t grain = 1024;  // rows that are worth a thread

void check(bool good, const char* argument, const std::string& message) {
  if (!good) throw error(error_kind::parameter, argument, -1, std::string(argument) + " must be " + message);
}

void check(const dasp_options& options) {
  constexpr int largest = 1024;
  const auto found = [](auto value) { return ", got " + std::to_string(value); };
  check(options.mma_m >= 1 && options.mma_m <= largest, "mma_m", "1 to 1024" + found(options.mma_m));
  check(options.mma_k >= 1 && options.mma_k <= largest, "mma_k", "1 to 1024" + found(options.mma_k));
  check(options.max_length >= 4 && options.max_length <= 1 << 20, "max_length",
        "4 (the longest short row) to 2^20" + found(options.max_length));
  check(options.threshold >= 0 && options.threshold <= 1, "threshold", "0 to 1" + found(options.threshold));
}

// Rows by decreasing length, long ones counted as max_length + 1; ties by row.
struct sorted_rows {
  std::vector<std::int32_t> rows;
  std::vector<std::int64_t> longer;  // [length]: rows that are longer, for lengths 0 .. max_length + 1

  std::int64_t of_length(int length) const {
    return (length == 0 ? static_cast<std::int64_t>(rows.size()) : longer[length - 1]) - longer[length];
  }
};

sorted_rows sort_rows(const csr_view& matrix, int max_length) {
  const auto key = [&](std::int64_t row) { return std::min<std::int64_t>(matrix.row_length(row), max_length + 1); };
  sorted_rows sorted;
  std::vector<std::int64_t> next(max_length + 2);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) ++next[key(row)];
  std::int64_t before = 0;
  for (int length = max_length + 1; length >= 0; --length) before += std::exchange(next[length], before);
  sorted.longer = next;
  sorted.rows.resize(matrix.num_rows);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    sorted.rows[next[key(row)]++] = static_cast<std::int32_t>(row);
  }
  return sorted;
}

// Sizes of the categories and the order of the rows.
void group_rows(const sorted_rows& sorted, dasp_matrix& result) {
  const std::int64_t ones = sorted.of_length(1);
  const std::int64_t twos = sorted.of_length(2);
  const std::int64_t threes = sorted.of_length(3);
  const int mma_m = result.options.mma_m;
  result.num_long = sorted.longer[result.options.max_length];
  result.num_medium = sorted.longer[4] - result.num_long;
  result.num_one_three = std::min(ones, threes) / mma_m * mma_m;  // whole blocks only
  result.num_two_two = (twos + 1) / 2;
  result.num_four = sorted.of_length(4) + threes - result.num_one_three;
  result.num_single = ones - result.num_one_three;

  const auto append = [&](std::int64_t first, std::int64_t count) {
    result.row_ids.insert(result.row_ids.end(), sorted.rows.begin() + first, sorted.rows.begin() + first + count);
  };
  result.row_ids.reserve(sorted.rows.size() + twos % 2);
  append(0, result.num_long + result.num_medium);
  for (std::int64_t pair = 0; pair < result.num_one_three; ++pair) {
    append(sorted.longer[1] + pair, 1);
    append(sorted.longer[3] + pair, 1);
  }
  append(sorted.longer[2], twos);
  if (twos % 2 == 1) result.row_ids.push_back(-1);
  append(sorted.longer[4], result.num_four - threes + result.num_one_three);
  append(sorted.longer[3] + result.num_one_three, threes - result.num_one_three);
  append(sorted.longer[1] + result.num_one_three, result.num_single);
  append(sorted.longer[0], sorted.of_length(0));
}

// Blocks of the row block at medium rows first .. last that are filled enough. Lengths decrease, so that no sparser
// block is followed by a denser one.
std::int64_t count_regular(const csr_view& matrix, const dasp_matrix& result, std::int64_t first, std::int64_t last) {
  const int mma_k = result.options.mma_k;
  for (std::int64_t block = 0;; ++block) {
    std::int64_t filled = 0;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t length = matrix.row_length(result.row_ids[result.num_long + i]);
      filled += std::clamp<std::int64_t>(length - block * mma_k, 0, mma_k);
    }
    if (filled == 0 || filled <= result.options.threshold * result.options.block_size()) return block;
  }
}

void lay_out(const csr_view& matrix, dasp_matrix& result) {
  const std::int64_t group_size = 2 * result.options.block_size();
  result.group_ptr.resize(result.num_long + 1);
  for (std::int64_t i = 0; i < result.num_long; ++i) {
    result.group_ptr[i + 1] = (matrix.row_length(result.row_ids[i]) + group_size - 1) / group_size;
  }
  result.block_ptr.resize(result.num_row_blocks() + 1);
  result.irregular_ptr.resize(result.num_medium + 1);
  const std::int64_t mma_m = result.options.mma_m;
  parallel_for(0, result.num_row_blocks(), grain / mma_m + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row_block = begin; row_block < end; ++row_block) {
      const std::int64_t first = row_block * mma_m;
      const std::int64_t last = std::min(first + mma_m, result.num_medium);
      const std::int64_t blocks = count_regular(matrix, result, first, last);
      result.block_ptr[row_block + 1] = blocks;
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t length = matrix.row_length(result.row_ids[result.num_long + i]);
        result.irregular_ptr[i + 1] = std::max<std::int64_t>(0, length - blocks * result.options.mma_k);
      }
    }
  });
  for (auto* offsets : {&result.group_ptr, &result.block_ptr, &result.irregular_ptr}) {
    std::partial_sum(offsets->begin(), offsets->end(), offsets->begin());
  }
}

template <class Value>
void fill(const csr_view& matrix, dasp_matrix& result) {
  const std::int64_t slots = result.irregular_begin() + result.irregular_ptr.back();
  result.indices.resize(slots);
  result.data.resize(slots * sizeof(Value));
  Value* data = reinterpret_cast<Value*>(result.data.data());
  const auto num_positions = static_cast<std::int64_t>(result.row_ids.size());
  parallel_for(0, num_positions, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t position = begin; position < end; ++position) {
      const std::int32_t row = result.row_ids[position];
      std::int64_t from = row < 0 ? 0 : matrix.indptr[row];
      const std::int64_t to = row < 0 ? 0 : matrix.indptr[row + 1];
      result.for_each_run(position, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t slot = first; slot < first + count; ++slot, ++from) {
          result.indices[slot] = from < to ? matrix.indices[from] : -1;
          data[slot] = from < to ? matrix.values<Value>()[from] : Value(0);
        }
      });
    }
  });
  // The rows that the last row block lacks have no position, but they do have slots.
  const std::int64_t missing = result.num_row_blocks() * result.options.mma_m - result.num_medium;
  if (missing == 0) return;
  const std::int64_t first_block = result.block_ptr[result.num_row_blocks() - 1];
  for (std::int64_t block = first_block; block < result.block_ptr.back(); ++block) {
    const std::int64_t end = result.regular_begin() + (block + 1) * result.options.block_size();
    std::fill(result.indices.begin() + end - missing * result.options.mma_k, result.indices.begin() + end, -1);
  }
}

std::int64_t count_entries(const dasp_matrix& matrix, std::int64_t position) {
  std::int64_t count = 0;
  matrix.for_each_entry(position, [&](std::int64_t) { ++count; });
  return count;
}

template <class Value>
void gather(const dasp_matrix& matrix, csr_matrix& result) {
  const Value* from = reinterpret_cast<const Value*>(matrix.data.data());
  Value* to = reinterpret_cast<Value*>(result.data.data());
  parallel_for(0, matrix.row_ids.size(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t position = begin; position < end; ++position) {
      if (matrix.row_ids[position] < 0) continue;
      std::int64_t next = result.indptr[matrix.row_ids[position]];
      matrix.for_each_entry(position, [&](std::int64_t slot) {
        result.indices[next] = matrix.indices[slot];
        to[next++] = from[slot];
      });
    }
  });
}

named_counts first_slots(const dasp_matrix& m) {
  return {{"long", {0}},
          {"regular", {m.regular_begin()}},
          {"combined", {m.combined_begin()}},
          {"single", {m.single_begin()}},
          {"irregular", {m.irregular_begin()}}};
}

// Rows, entries and padding.
named_counts category_counts(const dasp_matrix& matrix) {
  named_counts counts;
  for (const dasp_category& c : matrix.categories()) counts.push_back({c.name, {c.rows, c.nnz, c.padding}});
  return counts;
}

}  // namespace

std::size_t dasp_matrix::bytes() const {
  return (group_ptr.size() + block_ptr.size() + irregular_ptr.size()) * sizeof(std::int64_t) +
         (row_ids.size() + indices.size()) * sizeof(std::int32_t) + data.size();
}

std::vector<dasp_category> dasp_matrix::categories() const {
  const auto entries = [&](std::int64_t begin, std::int64_t end) {
    return std::count_if(indices.begin() + begin, indices.begin() + end, [](std::int32_t c) { return c >= 0; });
  };
  const auto category = [&](const char* name, std::int64_t rows, std::int64_t begin, std::int64_t end) {
    const std::int64_t nnz = entries(begin, end);
    return dasp_category{name, rows, nnz, end - begin - nnz};
  };
  const std::int64_t twos = combined_begin() + 4 * num_one_three;
  const std::int64_t fours = twos + 4 * num_two_two;
  const std::int64_t first_of_twos = num_long + num_medium + 2 * num_one_three;
  const std::int64_t num_twos =
      2 * num_two_two - (num_two_two > 0 && row_ids[first_of_twos + 2 * num_two_two - 1] < 0 ? 1 : 0);
  dasp_category medium = category("medium", num_medium, regular_begin(), combined_begin());
  medium.nnz += irregular_ptr.back();
  const std::int64_t filled = num_long + num_medium + 2 * num_one_three + num_twos + num_four + num_single;
  return {
      category("long", num_long, 0, regular_begin()),
      medium,
      category("short_1_3", 2 * num_one_three, combined_begin(), twos),
      category("short_2_2", num_twos, twos, fours),
      category("short_4", num_four, fours, single_begin()),
      category("short_1", num_single, single_begin(), irregular_begin()),
      {"empty", num_rows - filled, 0, 0},
  };
}

dasp_matrix to_dasp(const csr_view& matrix, const dasp_options& options) {
  check(options);
  dasp_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.num_entries = matrix.nnz();
  result.dtype = matrix.dtype;
  result.options = options;
  group_rows(sort_rows(matrix, options.max_length), result);
  lay_out(matrix, result);
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) { fill<Value>(matrix, result); });
  return result;
}

csr_matrix to_csr(const dasp_matrix& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  parallel_for(0, matrix.row_ids.size(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t position = begin; position < end; ++position) {
      const std::int32_t row = matrix.row_ids[position];
      if (row >= 0) result.indptr[row + 1] = count_entries(matrix, position);
    }
  });
  std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * size_of(matrix.dtype));
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) { gather<Value>(matrix, result); });
  return result;
}

std::vector<format_field> dasp_matrix::fields() const {
  return {
      {"mma_m", std::int64_t{options.mma_m}},
      {"mma_k", std::int64_t{options.mma_k}},
      {"max_length", std::int64_t{options.max_length}},
      {"threshold", options.threshold},
      {"section_starts", [this] { return first_slots(*this); }},
      {"categories", [this] { return category_counts(*this); }},
      {"row_ids", array_of(row_ids)},
      {"group_ptr", array_of(group_ptr)},
      {"block_ptr", array_of(block_ptr)},
      {"irregular_ptr", array_of(irregular_ptr)},
      {"indices", array_of(indices)},
      {"data", array_of(data, dtype)},
  };
}

format_description dasp_format() {
  return {
      .name = "dasp",
      .options = {{"mma_m", 8, {2, 8}},
                  {"mma_k", 4, {1, 4}},
                  {"max_length", 256, {4, 256}},
                  {"threshold", 0.75, {0.0, 0.75, 1.0}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_dasp(matrix, {options.integer("mma_m"), options.integer("mma_k"),
                                           options.integer("max_length"), options.real("threshold")}));
          },
  };
}

}  // namespace warploom
