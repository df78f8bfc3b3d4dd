#include "permutations/pattern_graph.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include "permutations/chunks.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

// Numbers the columns that have entries from 0 up, in `indices`; returns how many they are.
std::int64_t leave_out_empty_columns(const csr_pattern& matrix, std::vector<std::int32_t>& indices) {
  std::vector<std::int32_t> occupied(matrix.indices, matrix.indices + matrix.nnz());
  sort_in_parallel(occupied, std::less<>());
  occupied.erase(std::unique(occupied.begin(), occupied.end()), occupied.end());
  indices.resize(matrix.nnz());
  for_chunks(matrix.nnz(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      const auto at = std::lower_bound(occupied.begin(), occupied.end(), matrix.indices[j]);
      indices[j] = static_cast<std::int32_t>(at - occupied.begin());
    }
  });
  return static_cast<std::int64_t>(occupied.size());
}

// The transpose of a matrix, one block of columns at a time. The entries are first sorted into blocks so small that
// each is then put in order within a core's cache.
class column_blocks {
 public:
  explicit column_blocks(const csr_pattern& matrix) : matrix_(matrix) {
    const std::int64_t entries_per_column = matrix.nnz() / std::max<std::int64_t>(matrix.num_cols, 1) + 1;
    const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>((1 << 16) / entries_per_column, 1));
    shift_ = std::bit_width(std::max<std::uint64_t>(wanted, matrix.num_cols / 2048)) - 1;
    num_blocks_ = (matrix.num_cols + width() - 1) / width();
    begin_.assign(num_blocks_ + 1, 0);
    if (matrix.nnz() == 0) return;
    const std::int64_t ranges =
        std::clamp<std::int64_t>(std::min<std::int64_t>(4 * num_threads(), matrix.nnz() >> 16), 1, 256);
    const std::int64_t step = (matrix.num_rows + ranges - 1) / ranges;
    std::vector<std::vector<std::int64_t>> next(ranges);  // by range of rows and block
    const auto for_each_entry = [&](std::int64_t range, auto&& visit) {
      for (std::int64_t row = range * step; row < std::min(matrix.num_rows, (range + 1) * step); ++row) {
        if (row % 4096 == 0) check_interruption();
        for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) visit(row, matrix.indices[j]);
      }
    };
    for_chunks(ranges, 1, [&](std::int64_t range, std::int64_t) {
      next[range].assign(num_blocks_, 0);
      for_each_entry(range, [&](std::int64_t, std::int32_t column) { ++next[range][column >> shift_]; });
    });
    std::int64_t at = 0;
    for (std::int64_t block = 0; block < num_blocks_; ++block) {
      for (auto& range : next) at += std::exchange(range[block], at);
      begin_[block + 1] = at;
    }
    entries_.resize(matrix.nnz());
    for_chunks(ranges, 1, [&](std::int64_t range, std::int64_t) {
      for_each_entry(range, [&](std::int64_t row, std::int32_t column) {
        entries_[next[range][column >> shift_]++] = {column, static_cast<std::int32_t>(row)};
      });
    });
  }

  std::int64_t num_blocks() const { return num_blocks_; }
  std::int64_t first_column(std::int64_t block) const { return block << shift_; }
  std::int64_t end_column(std::int64_t block) const { return std::min(matrix_.num_cols, (block + 1) << shift_); }

  // Rows with an entry in each column of the block, ascending: those of its c-th column are from begin[c] to
  // begin[c+1].
  void transpose(std::int64_t block, std::vector<std::int64_t>& begin, std::vector<std::int32_t>& rows) const {
    begin.assign(end_column(block) - first_column(block) + 2, 0);
    rows.resize(begin_[block + 1] - begin_[block]);
    const std::span own(entries_.data() + begin_[block], rows.size());
    for (const entry& e : own) ++begin[e.column - first_column(block) + 2];
    for (std::size_t c = 2; c < begin.size(); ++c) begin[c] += begin[c - 1];
    for (const entry& e : own) rows[begin[e.column - first_column(block) + 1]++] = e.row;
    begin.pop_back();
  }

 private:
  struct entry {
    std::int32_t column;
    std::int32_t row;
  };

  std::int64_t width() const { return std::int64_t{1} << shift_; }

  const csr_pattern& matrix_;
  int shift_ = 0;
  std::int64_t num_blocks_ = 0;
  std::vector<std::int64_t> begin_;  // by block
  std::vector<entry> entries_;
};

// The distinct columns of a row, ascending. Uses `sorted` where they are not so already.
std::span<const std::int32_t> distinct_columns(const csr_pattern& matrix, std::int64_t row,
                                               std::vector<std::int32_t>& sorted) {
  const std::span columns(matrix.indices + matrix.indptr[row], matrix.indices + matrix.indptr[row + 1]);
  if (std::adjacent_find(columns.begin(), columns.end(), std::greater_equal<>()) == columns.end()) return columns;
  sorted.assign(columns.begin(), columns.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

// Lists of neighbours of consecutive nodes.
struct adjacency_part {
  std::int64_t first_node = 0;
  std::vector<std::int32_t> neighbours;
};

}  // namespace

pattern_graph::pattern_graph(const csr_pattern& given)
    : num_rows_(given.num_rows), bipartite_(given.num_rows != given.num_cols) {
  csr_pattern matrix = given;
  std::vector<std::int32_t> renumbered;
  if (bipartite_ && matrix.num_cols > matrix.nnz()) {
    matrix.num_cols = leave_out_empty_columns(given, renumbered);
    matrix.indices = renumbered.data();
  }
  const std::int64_t nodes = num_rows_ + (bipartite_ ? matrix.num_cols : 0);
  if (nodes > std::numeric_limits<std::int32_t>::max()) {
    throw error(error_kind::index_overflow, "A", -1, "this order needs rows and columns below 2^31 together");
  }
  indptr_.assign(nodes + 1, 0);

  const column_blocks columns(matrix);
  constexpr std::int64_t rows_per_part = 1 << 12;
  const std::int64_t row_parts = bipartite_ ? (num_rows_ + rows_per_part - 1) / rows_per_part : 0;
  std::vector<adjacency_part> parts(row_parts + columns.num_blocks());
  for_chunks(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t p, std::int64_t) {
    thread_local std::vector<std::int32_t> sorted, rows;
    thread_local std::vector<std::int64_t> begin;
    std::vector<std::int32_t>& neighbours = parts[p].neighbours;
    if (p < row_parts) {
      parts[p].first_node = p * rows_per_part;
      for (std::int64_t row = p * rows_per_part; row < std::min(num_rows_, (p + 1) * rows_per_part); ++row) {
        const auto found = distinct_columns(matrix, row, sorted);
        for (const std::int32_t column : found) neighbours.push_back(static_cast<std::int32_t>(num_rows_ + column));
        indptr_[row + 1] = static_cast<std::int64_t>(found.size());
      }
      return;
    }
    const std::int64_t block = p - row_parts, first = columns.first_column(block), end = columns.end_column(block);
    columns.transpose(block, begin, rows);
    const std::int64_t offset = bipartite_ ? num_rows_ : 0;
    parts[p].first_node = offset + first;
    neighbours.reserve(rows.size() + (bipartite_ ? 0 : matrix.indptr[end] - matrix.indptr[first]));
    for (std::int64_t column = first; column < end; ++column) {
      const auto size_before = static_cast<std::int64_t>(neighbours.size());
      auto of_column = rows.begin() + begin[column - first];
      const auto end_of_column = rows.begin() + begin[column - first + 1];
      std::span<const std::int32_t> of_row;
      if (!bipartite_) of_row = distinct_columns(matrix, column, sorted);
      std::int32_t last = bipartite_ ? -1 : static_cast<std::int32_t>(column);  // repeated, or the node itself
      auto in_row = of_row.begin();
      while (of_column != end_of_column || in_row != of_row.end()) {
        const bool from_row = of_column == end_of_column || (in_row != of_row.end() && *in_row < *of_column);
        const std::int32_t next = from_row ? *in_row++ : *of_column++;
        if (next == last || (!bipartite_ && next == column)) continue;
        neighbours.push_back(last = next);
      }
      indptr_[offset + column + 1] = static_cast<std::int64_t>(neighbours.size()) - size_before;
    }
  });
  for (std::int64_t node = 0; node < nodes; ++node) indptr_[node + 1] += indptr_[node];
  neighbours_.resize(indptr_.back());
  for_chunks(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t p, std::int64_t) {
    const auto& part = parts[p];
    std::copy(part.neighbours.begin(), part.neighbours.end(), neighbours_.begin() + indptr_[part.first_node]);
  });
}

}  // namespace warploom
