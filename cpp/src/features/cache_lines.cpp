// One pass over the column indices. All counts come from one small record per cache line, which remembers the last
// row that requested the line:
//   that is the current row   -> the pair (row, line) is known; duplicates and unsorted rows need nothing else;
//   that is the row before it -> the two rows share the line, which gives the Hamming distance of adjacent rows;
//   anything else             -> a new request.
// The records of all lines are n / L * 16 bytes (N_w <= 64): half a byte for a column, much less than the vector that
// an SpMV reads at random.
#include "features/cache_lines.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

#include "features/divider.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

// Rows as records store them: never 0, so that zeroed memory means "no row yet", nor 1, so that the first row
// has no row before it.
std::uint32_t mark_of(std::int64_t row) { return static_cast<std::uint32_t>(row + 2); }

struct line_record {
  std::uint32_t last_row = 0;  // mark_of the last row that requested the line
  std::uint32_t requests = 0;
};

// What one thread has counted over its rows.
struct row_range_counts {
  std::vector<line_record> lines;
  std::vector<std::uint64_t> warps_of_line;  // [lines][words]: bit w says that warp w requested the line
  std::vector<std::uint32_t> last_row_of_block;
  std::vector<std::int64_t> total_of_warp;
  summary blocks_per_row;
  summary adjacent_distance;
};

struct layout {
  std::int64_t lines;
  std::int64_t busy_warps;      // warps that have a row
  std::int64_t words;           // 64-bit words of the warp set of a line
  std::int64_t counted_blocks;  // 0 if a block is a cache line and need not be counted separately

  layout(const csr_pattern& matrix, const geometry& shape)
      : lines(ceil_divide(matrix.num_cols, shape.elements_per_cache_line)),
        busy_warps(std::min<std::int64_t>(shape.warps, matrix.num_rows)),
        words(ceil_divide(busy_warps, 64)),
        counted_blocks(shape.warps == shape.elements_per_cache_line ? 0 : ceil_divide(matrix.num_cols, shape.warps)) {}
};

template <class LineOf, class BlockOf>
class range_counter {
 public:
  range_counter(const csr_pattern& matrix, const layout& sizes, LineOf line_of, BlockOf block_of)
      : matrix_(matrix), sizes_(sizes), line_of_(line_of), block_of_(block_of) {
    counts_.lines.resize(sizes.lines);
    counts_.warps_of_line.resize(sizes.lines * sizes.words);
    counts_.last_row_of_block.resize(sizes.counted_blocks);
    counts_.total_of_warp.resize(sizes.busy_warps);
  }

  row_range_counts count(std::int64_t begin, std::int64_t end) {
    std::int64_t lines_before = begin > 0 ? note_row(begin - 1) : 0;
    std::int64_t warp = begin % sizes_.busy_warps;
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t shared = 0;
      const std::int64_t lines = count_lines(row, warp, shared);
      if (row > 0) counts_.adjacent_distance.add(lines_before + lines - 2 * shared);
      counts_.blocks_per_row.add(sizes_.counted_blocks == 0 ? lines : count_blocks(row));
      counts_.total_of_warp[warp] += lines;
      lines_before = lines;
      if (++warp == sizes_.busy_warps) warp = 0;
    }
    return std::move(counts_);
  }

 private:
  // Number of lines that `row` requests; `shared` of them were requested by the row before as well.
  std::int64_t count_lines(std::int64_t row, std::int64_t warp, std::int64_t& shared) {
    const std::uint32_t mark = mark_of(row);
    const std::uint64_t warp_bit = std::uint64_t{1} << (warp % 64);
    line_record* const records = counts_.lines.data();
    std::uint64_t* const warps = counts_.warps_of_line.data() + warp / 64;
    const std::int64_t words = sizes_.words;
    std::int64_t distinct = 0;
    std::int64_t common = 0;
    for_each_run(row, line_of_, [&](std::uint32_t line) {
      line_record& record = records[line];
      if (record.last_row == mark) return;
      common += record.last_row == mark - 1;
      record.last_row = mark;
      ++record.requests;
      warps[line * words] |= warp_bit;
      ++distinct;
    });
    shared = common;
    return distinct;
  }

  // Marks the lines of a row that belongs to another thread, for the distance of the row after it.
  std::int64_t note_row(std::int64_t row) {
    const std::uint32_t mark = mark_of(row);
    std::int64_t distinct = 0;
    for_each_run(row, line_of_, [&](std::uint32_t line) {
      distinct += counts_.lines[line].last_row != mark;
      counts_.lines[line].last_row = mark;
    });
    return distinct;
  }

  std::int64_t count_blocks(std::int64_t row) {
    const std::uint32_t mark = mark_of(row);
    std::uint32_t* const last_row = counts_.last_row_of_block.data();
    std::int64_t distinct = 0;
    for_each_run(row, block_of_, [&](std::uint32_t block) {
      distinct += last_row[block] != mark;
      last_row[block] = mark;
    });
    return distinct;
  }

  // Calls visit(group_of(column)) for the nonzeros of a row, once for neighbours in the same group: in a sorted row
  // that is once for each group.
  template <class GroupOf, class Visit>
  void for_each_run(std::int64_t row, GroupOf group_of, Visit visit) {
    const std::int32_t* column = matrix_.indices + matrix_.indptr[row];
    const std::int32_t* const end = matrix_.indices + matrix_.indptr[row + 1];
    std::uint32_t before = ~std::uint32_t{0};  // beyond any group
    for (; column != end; ++column) {
      const std::uint32_t group = group_of(*column);
      if (group == before) continue;
      before = group;
      visit(group);
    }
  }

  const csr_pattern& matrix_;
  const layout& sizes_;
  LineOf line_of_;
  BlockOf block_of_;
  row_range_counts counts_;
};

// How many threads pay off: a thread has to count more nonzeros than it has records to clear and to merge. This
// also bounds the memory by that of the matrix, or of one set of records.
std::int64_t num_ranges(const csr_pattern& matrix, const layout& sizes) {
  const std::int64_t least =
      std::max<std::int64_t>({1 << 15, 2 * sizes.lines * (1 + sizes.words), sizes.counted_blocks});
  const std::int64_t work = matrix.nnz() + matrix.num_rows;
  return std::clamp<std::int64_t>(work / least, 1, num_threads());
}

// First row of range r of `ranges` ranges of about equal work, which is a nonzero or a row.
std::int64_t first_row(const csr_pattern& matrix, std::int64_t r, std::int64_t ranges) {
  const std::int64_t work = matrix.nnz() + matrix.num_rows;
  const std::int64_t before = work / ranges * r;
  std::int64_t low = 0;
  std::int64_t high = matrix.num_rows;
  if (r == ranges) return high;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (matrix.indptr[middle] + middle < before) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::vector<row_range_counts> count_all(const csr_pattern& matrix, const geometry& shape, const layout& sizes) {
  const std::int64_t ranges = num_ranges(matrix, sizes);
  std::vector<row_range_counts> counts(ranges);
  with_divider(shape.elements_per_cache_line, [&](auto line_of) {
    with_divider(shape.warps, [&](auto block_of) {
      parallel_for(0, ranges, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          range_counter counter(matrix, sizes, line_of, block_of);
          counts[r] = counter.count(first_row(matrix, r, ranges), first_row(matrix, r + 1, ranges));
        }
      });
    });
  });
  return counts;
}

// Requests per line and distinct lines per warp, over all threads.
void merge_lines(const std::vector<row_range_counts>& counts, const layout& sizes, summary& requests_per_line,
                 std::vector<std::int64_t>& distinct_of_warp) {
  std::mutex merging;
  parallel_for(0, sizes.lines, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    summary requests;
    std::vector<std::int64_t> distinct(sizes.words * 64, 0);
    for (std::int64_t line = begin; line < end; ++line) {
      std::int64_t of_line = 0;
      for (const auto& part : counts) of_line += part.lines[line].requests;
      requests.add(of_line);
      for (std::int64_t word = 0; word < sizes.words; ++word) {
        std::uint64_t warps = 0;
        for (const auto& part : counts) warps |= part.warps_of_line[line * sizes.words + word];
        for (; warps != 0; warps &= warps - 1) ++distinct[word * 64 + std::countr_zero(warps)];
      }
    }
    const std::lock_guard<std::mutex> lock(merging);
    requests_per_line.merge(requests);
    for (std::int64_t warp = 0; warp < sizes.busy_warps; ++warp) distinct_of_warp[warp] += distinct[warp];
  });
}

}  // namespace

cache_line_summaries summarise_cache_lines(const csr_pattern& matrix, const geometry& shape) {
  cache_line_summaries result;
  const layout sizes(matrix, shape);
  std::vector<std::int64_t> distinct(sizes.busy_warps, 0);
  std::vector<std::int64_t> total(sizes.busy_warps, 0);
  if (matrix.num_rows > 0) {
    const std::vector<row_range_counts> counts = count_all(matrix, shape, sizes);
    merge_lines(counts, sizes, result.requests_per_line, distinct);
    for (const auto& part : counts) {
      result.blocks_per_row.merge(part.blocks_per_row);
      result.adjacent_distance.merge(part.adjacent_distance);
      for (std::int64_t warp = 0; warp < sizes.busy_warps; ++warp) total[warp] += part.total_of_warp[warp];
    }
  }
  for (std::int64_t warp = 0; warp < sizes.busy_warps; ++warp) {
    result.distinct_per_warp.add(distinct[warp]);
    result.total_per_warp.add(total[warp]);
  }
  result.distinct_per_warp.add(0, shape.warps - sizes.busy_warps);
  result.total_per_warp.add(0, shape.warps - sizes.busy_warps);
  return result;
}

}  // namespace warploom
