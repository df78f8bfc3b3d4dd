#include "warploom/formats/column_panels.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "device/cuda_function.hpp"
#include "kernels/column_panels/bank_order.hpp"
#include "kernels/column_panels/panel_size.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

convert_on_gpu_function column_panels_on_gpu;

namespace {

std::int64_t ceil_divide(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

void check(const csr_view& matrix, int panel_columns) {
  check_panel_columns(panel_columns);
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (matrix.nnz() > most) {
    throw error(error_kind::index_overflow, "matrix", -1,
                "format column-panels holds at most " + std::to_string(most) + " nonzeros, got " +
                    std::to_string(matrix.nnz()));
  }
}

// Ranges of whole row blocks with about equally many nonzeros, which are converted in parallel.
std::vector<std::int64_t> cut_rows(const csr_view& matrix) {
  constexpr std::int64_t work_per_range = 1 << 16;  // nonzeros and rows
  std::vector<std::int64_t> boundaries{0};
  std::int64_t begin = 0;
  for (std::int64_t row = rows_per_mask; row < matrix.num_rows; row += rows_per_mask) {
    if (matrix.indptr[row] - matrix.indptr[begin] + row - begin < work_per_range) continue;
    boundaries.push_back(row);
    begin = row;
  }
  if (matrix.num_rows > 0) boundaries.push_back(matrix.num_rows);
  return boundaries;
}

// Nonzeros and partial sums of rows of one range of rows in one panel: first how many, then where they begin.
struct range_counts {
  std::int64_t places = 0;
  std::int64_t sums = 0;
  std::int64_t ended = -1;  // places up to the row end marked last
};

class conversion {
 public:
  conversion(const csr_view& matrix, int panel_columns)
      : matrix_(matrix),
        width_(panel_columns),
        panels_(ceil_divide(matrix.num_cols, panel_columns)),
        boundaries_(cut_rows(matrix)),
        counts_(num_ranges() * panels_) {
    result_.num_rows = matrix.num_rows;
    result_.num_cols = matrix.num_cols;
    result_.dtype = matrix.dtype;
    result_.panel_columns = panel_columns;
    result_.num_nonzeros = matrix.nnz();
  }

  column_panels_matrix run() {
    for_each_range([&](std::int64_t range) { count(range); });
    place_ranges();
    const std::int64_t places = result_.panel_ptr.back();
    result_.columns.assign(places, static_cast<std::uint16_t>(width_));
    result_.data.resize(places * size_of(matrix_.dtype));
    result_.row_ends.resize(places / 8);
    result_.row_masks.resize(result_.num_row_blocks() * panels_);
    result_.first_sums.resize(result_.num_row_blocks() * panels_);
    dispatch_value_type(matrix_.dtype,
                        [&](auto value) { for_each_range([&](std::int64_t range) { fill<decltype(value)>(range); }); });
    return std::move(result_);
  }

 private:
  std::int64_t num_ranges() const { return static_cast<std::int64_t>(boundaries_.size()) - 1; }

  template <class Body>
  void for_each_range(Body&& body) {
    parallel_for(0, num_ranges(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t range = begin; range < end; ++range) body(range);
    });
  }

  void count(std::int64_t range) {
    std::vector<std::int64_t> last_row(panels_, -1);  // with nonzeros in a panel
    range_counts* counts = counts_.data() + range * panels_;
    for (std::int64_t row = boundaries_[range]; row < boundaries_[range + 1]; ++row) {
      for (std::int64_t j = matrix_.indptr[row]; j < matrix_.indptr[row + 1]; ++j) {
        const std::uint32_t panel = static_cast<std::uint32_t>(matrix_.indices[j]) / width_;
        ++counts[panel].places;
        counts[panel].sums += last_row[panel] != row;
        last_row[panel] = row;
      }
    }
  }

  void place_ranges() {
    range_counts next;
    result_.panel_ptr.reserve(panels_ + 1);
    for (std::int64_t panel = 0; panel < panels_; ++panel) {
      for (std::int64_t range = 0; range < num_ranges(); ++range) {
        const range_counts here = std::exchange(counts_[range * panels_ + panel], next);
        next.places += here.places;
        next.sums += here.sums;
      }
      next.places = ceil_divide(next.places, panel_tile) * panel_tile;
      result_.panel_ptr.push_back(next.places);
    }
    result_.num_sums = next.sums;
  }

  template <class Value>
  void fill(std::int64_t range) {
    std::vector<range_counts> next(counts_.begin() + range * panels_, counts_.begin() + (range + 1) * panels_);
    for (std::int64_t row = boundaries_[range]; row < boundaries_[range + 1]; ++row) {
      if (row % rows_per_mask == 0) {
        std::int32_t* first_sums = result_.first_sums.data() + row / rows_per_mask * panels_;
        for (std::int64_t p = 0; p < panels_; ++p) first_sums[p] = static_cast<std::int32_t>(next[p].sums);
      }
      fill_row<Value>(row, next);
    }
  }

  template <class Value>
  void fill_row(std::int64_t row, std::vector<range_counts>& next) {
    const Value* values = matrix_.values<Value>();
    Value* data = reinterpret_cast<Value*>(result_.data.data());
    std::uint32_t* masks = result_.row_masks.data() + row / rows_per_mask * panels_;
    const std::uint32_t bit = 1u << row % rows_per_mask;
    for (std::int64_t j = matrix_.indptr[row]; j < matrix_.indptr[row + 1]; ++j) {
      const auto column = static_cast<std::uint32_t>(matrix_.indices[j]);
      const std::uint32_t panel = column / width_;
      const std::int64_t place = next[panel].places++;
      result_.columns[place] = static_cast<std::uint16_t>(column - panel * width_);
      data[place] = values[j];
      masks[panel] |= bit;
    }
    for (std::int64_t j = matrix_.indptr[row]; j < matrix_.indptr[row + 1]; ++j) {
      range_counts& at = next[static_cast<std::uint32_t>(matrix_.indices[j]) / width_];
      if (at.ended == at.places) continue;  // another nonzero of this panel came before
      at.ended = at.places;
      ++at.sums;
      mark_row_end(at.places - 1);
    }
  }

  void mark_row_end(std::int64_t place) {
    // Neighbouring ranges share bytes.
    std::atomic_ref<std::uint8_t>(result_.row_ends[place / 8])
        .fetch_or(static_cast<std::uint8_t>(1u << place % 8), std::memory_order_relaxed);
  }

  const csr_view& matrix_;
  std::uint32_t width_;
  std::int64_t panels_;
  std::vector<std::int64_t> boundaries_;
  std::vector<range_counts> counts_;  // [range][panel]
  column_panels_matrix result_;
};

constexpr std::int64_t row_blocks_per_range = 64;

// Calls body(first block, last block + 1, places of the first block in every panel) for ranges of rows.
template <class Body>
void for_each_block_range(const column_panels_matrix& matrix, const std::vector<std::int64_t>& places, Body&& body) {
  const std::int64_t blocks = matrix.num_row_blocks();
  parallel_for(0, ceil_divide(blocks, row_blocks_per_range), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t range = begin; range < end; ++range) {
      const std::int64_t first = range * row_blocks_per_range;
      body(first, std::min(blocks, first + row_blocks_per_range), places.data() + range * matrix.num_panels());
    }
  });
}

}  // namespace

void check_panel_columns(int panel_columns) {
  if (panel_columns < 1 || panel_columns > max_panel_columns) {
    throw error(error_kind::parameter, "panel_columns", -1,
                "panel_columns must be between 1 and " + std::to_string(max_panel_columns) + ", got " +
                    std::to_string(panel_columns));
  }
}

std::size_t column_panels_matrix::bytes() const {
  return panel_ptr.size() * sizeof(panel_ptr[0]) + columns.size() * sizeof(columns[0]) + data.size() + row_ends.size() +
         row_masks.size() * sizeof(row_masks[0]) + first_sums.size() * sizeof(first_sums[0]);
}

std::int64_t column_panels_matrix::row_end(std::int64_t place) const {
  std::int64_t byte = place / 8;
  unsigned ends = row_ends[byte] & 0xffu << place % 8;
  while (ends == 0) ends = row_ends[++byte];
  return byte * 8 + std::countr_zero(ends) + 1;
}

column_panels_matrix to_column_panels(const csr_view& matrix, int panel_columns) {
  check(matrix, panel_columns);
  return conversion(matrix, panel_columns).run();
}

std::vector<std::int64_t> row_block_places(const column_panels_matrix& matrix, std::int64_t step) {
  const std::int64_t panels = matrix.num_panels();
  const std::int64_t blocks = matrix.num_row_blocks();
  std::vector<std::int64_t> places(ceil_divide(blocks, step) * panels);
  parallel_for(0, panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      std::int64_t byte = matrix.panel_ptr[panel] / 8;
      std::int64_t ended = panels > 0 && blocks > 0 ? matrix.first_sums[panel] : 0;  // rows before `byte`
      for (std::int64_t block = 0; block < blocks; block += step) {
        const std::int64_t before = matrix.first_sums[block * panels + panel];
        std::int64_t& place = places[block / step * panels + panel];
        place = byte * 8;
        if (before == matrix.first_sums[panel]) continue;
        // After the last place of row sum `before` - 1.
        while (ended + std::popcount(matrix.row_ends[byte]) < before) ended += std::popcount(matrix.row_ends[byte++]);
        unsigned ends = matrix.row_ends[byte];
        for (std::int64_t skipped = ended; skipped + 1 < before; ++skipped) ends &= ends - 1;
        place = byte * 8 + std::countr_zero(ends) + 1;
      }
    }
  });
  return places;
}

csr_matrix to_csr(const column_panels_matrix& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  result.indices.resize(matrix.nnz());
  const std::size_t size = size_of(matrix.dtype);
  result.data.resize(matrix.nnz() * size);

  const std::vector<std::int64_t> places = row_block_places(matrix, row_blocks_per_range);
  for_each_block_range(matrix, places, [&](std::int64_t first, std::int64_t last, const std::int64_t* starts) {
    for (std::int64_t p = 0; p < matrix.num_panels(); ++p) {
      for_each_row_of_panel(
          matrix, p, first, last, starts[p],
          [&](std::int64_t row, std::int64_t begin, std::int64_t end) { result.indptr[row + 1] += end - begin; });
    }
  });
  std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
  for_each_block_range(matrix, places, [&](std::int64_t first, std::int64_t last, const std::int64_t* starts) {
    const std::int64_t first_row = first * rows_per_mask;
    const std::int64_t last_row = std::min(matrix.num_rows, last * rows_per_mask);
    std::vector<std::int64_t> next(result.indptr.begin() + first_row, result.indptr.begin() + last_row);
    for (std::int64_t p = 0; p < matrix.num_panels(); ++p) {
      const auto first_column = static_cast<std::int32_t>(p * matrix.panel_columns);
      for_each_row_of_panel(
          matrix, p, first, last, starts[p], [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
            std::int64_t& to = next[row - first_row];
            std::memcpy(result.data.data() + to * size, matrix.data.data() + begin * size, (end - begin) * size);
            for (; begin < end; ++begin) result.indices[to++] = first_column + matrix.columns[begin];
          });
    }
  });
  return result;
}

std::int32_t even_panel_columns(std::int64_t num_cols, std::int64_t most) {
  constexpr std::int64_t multiple = panel_columns_multiple;
  most = std::clamp<std::int64_t>(most, multiple, max_panel_columns) / multiple * multiple;
  const std::int64_t panels = std::max<std::int64_t>(1, ceil_divide(num_cols, most));
  const std::int64_t columns = ceil_divide(ceil_divide(num_cols, panels), multiple) * multiple;
  return static_cast<std::int32_t>(std::max(multiple, columns));
}

std::vector<format_field> column_panels_matrix::fields() const {
  return {
      {"panel_columns", std::int64_t{panel_columns}},
      {"panel_ptr", array_of(panel_ptr)},
      {"columns", array_of(columns)},
      {"data", array_of(data, dtype)},
      {"row_ends", array_of(row_ends)},
      {"row_masks", array_of(row_masks)},
      {"first_sums", array_of(first_sums)},
  };
}

format_description column_panels_format() {
  return {
      .name = "column-panels",
      .options = {{"panel_columns", 24576, {1, 5, 65535}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_column_panels(matrix, options.integer("panel_columns")));
          },
      .from_csr_on_gpu = WARPLOOM_CUDA(column_panels_on_gpu),
  };
}

}  // namespace warploom
