#include "kernels/csr/row_blocks.hpp"

#include <algorithm>
#include <utility>

namespace warploom {
namespace {

class row_block_builder {
 public:
  row_block_builder(std::span<const std::int64_t> indptr, int nnz_per_block, int threads_per_block)
      : indptr_(indptr),
        share_(nnz_per_block),
        threads_per_block_(threads_per_block),
        max_rows_(max_rows_per_block(nnz_per_block, threads_per_block)) {}

  row_blocks build() {
    const std::int64_t num_rows = static_cast<std::int64_t>(indptr_.size()) - 1;
    for (std::int64_t row = 0; row < num_rows; ++row) add(row);
    close(num_rows);
    return std::move(result_);
  }

 private:
  void add(std::int64_t row) {
    const std::int64_t length = indptr_[row + 1] - indptr_[row];
    const bool cuts = length > longest_uncut_row(share_);
    if (cuts || indptr_[row + 1] - indptr_[first_] > share_ || row - first_ == max_rows_) close(row);
    if (cuts) {
      cut(row);
      first_ = row + 1;
    } else {
      longest_ = std::max(longest_, length);
    }
  }

  // Ends the block of the rows first_ .. end, if there are any.
  void close(std::int64_t end) {
    if (end > first_) {
      const auto num_rows = static_cast<int>(end - first_);
      const int bits = log2_threads_per_row(num_rows, static_cast<int>(longest_), threads_per_block_);
      result_.blocks.push_back({static_cast<std::int32_t>(first_), static_cast<std::int32_t>(indptr_[first_]),
                                static_cast<std::int32_t>(indptr_[end] - indptr_[first_]), num_rows * 8 + bits});
    }
    first_ = end;
    longest_ = 0;
  }

  void cut(std::int64_t row) {
    const std::int64_t length = indptr_[row + 1] - indptr_[row];
    const std::int64_t piece = segment_length(length, share_);
    const auto cut_row = static_cast<std::int32_t>(result_.cut_rows.size());
    const auto first_partial = static_cast<std::int32_t>(result_.num_partials);
    for (std::int64_t begin = indptr_[row]; begin < indptr_[row + 1]; begin += piece) {
      result_.blocks.push_back({cut_row, static_cast<std::int32_t>(begin),
                                static_cast<std::int32_t>(std::min(piece, indptr_[row + 1] - begin)),
                                static_cast<std::int32_t>(-1 - result_.num_partials++)});
    }
    result_.cut_rows.push_back({static_cast<std::int32_t>(row), first_partial,
                                static_cast<std::int32_t>(result_.num_partials) - first_partial});
  }

  std::span<const std::int64_t> indptr_;
  int share_;
  int threads_per_block_;
  std::int64_t max_rows_;
  row_blocks result_;
  std::int64_t first_ = 0;    // first row of the block under construction
  std::int64_t longest_ = 0;  // length of its longest row
};

}  // namespace

row_blocks make_row_blocks(std::span<const std::int64_t> indptr, int nnz_per_block, int threads_per_block) {
  return row_block_builder(indptr, nnz_per_block, threads_per_block).build();
}

}  // namespace warploom
