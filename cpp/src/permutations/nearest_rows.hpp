// The search that all cache-aware permutations share: a pool of rows, from which the row nearest to a given one is
// taken again and again. Exact: every row that could be the nearest is accounted for.
//
//   distance(a, c) = |a| + |c| - 2 |a & c|
//
// Rows of equal mask form one entry, so a query whose own mask is still in the pool is answered at once, and matrices
// with few distinct masks (stencils, bands, blocks) have little to search. Otherwise a query costs the cheaper of
//  - the lists of the entries that set each of the query's bits: as many steps as the lists are long. Entries in none
//    of them are as far as |a| + |c|, so that of these only the smallest matters;
//  - bitmaps over all entries (mask_bitmaps), for masks that share bits with many others:
//    |a| * entries / 64 word operations.
// Entries that are used up stay in both until a quarter of all is gone, and then both are built anew.
//
// Memory: 4 bytes per set mask bit for the lists; the bitmaps are left out where they would need more than 64 MiB and
// more than four times that. Time for all rows of a matrix: the sum over mask bits of (rows that set it)^2 / 2 at most.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "permutations/mask_bitmaps.hpp"
#include "permutations/row_masks.hpp"

namespace warploom {

class nearest_rows {
 public:
  explicit nearest_rows(const row_masks& masks);

  // Makes `rows` the pool, in place of the previous one. Equally near rows are taken in the order given here.
  void fill(std::span<const std::int32_t> rows);

  bool empty() const { return size_ == 0; }

  // Each takes a row out of the pool, which must not be empty, and returns it.
  std::int32_t take_first();
  std::int32_t take_nearest(std::int32_t row);                       // `row` need not be or have been in the pool
  std::int32_t take_nearest(std::int32_t row, std::int32_t second);  // equally near to `row`: nearest to `second`

 private:
  // All rows of one mask that were in the pool, those left being members_[next], ..., members_[end - 1].
  struct entry {
    std::int32_t mask;
    std::int32_t next;
    std::int32_t end;
    std::int32_t first_rank;  // rank of its first row when the entries were last rebuilt: they ascend by it
  };

  // The overlaps of a query with the entries that share a bit with it.
  struct overlap_counts {
    std::vector<std::int32_t> count;    // [entries], all 0 between queries
    std::vector<std::int32_t> touched;  // [entries], the first num_touched have a count
    std::int32_t num_touched = 0;

    void add(const inverted_lists& lists, std::span<const std::int32_t> query);
    void clear();
  };

  static constexpr std::int32_t none = -1;

  bool is_used_up(std::int32_t e) const { return entries_[e].next == entries_[e].end; }
  std::int32_t rank(std::int32_t e) const { return members_[entries_[e].next]; }
  void forget_entries();
  void make_entries();
  void rebuild();
  void build_lists();
  std::int32_t take(std::int32_t e);
  std::int32_t take_nearest_to_mask(std::int32_t mask, std::int32_t second_mask);
  bool bitmaps_are_cheaper(std::span<const std::int32_t> query) const;
  std::int32_t find_in_bitmaps(std::int32_t mask, std::int32_t second_mask);
  std::int32_t find_in_lists(std::int32_t mask, std::int32_t second_mask);
  std::int32_t break_tie_in_lists(std::int32_t least, std::int32_t second_mask);
  std::int32_t smallest_entry();

  const row_masks& masks_;
  std::vector<std::int32_t> rows_;                // the pool as filled; a row's rank is its place here
  std::vector<bool> is_taken_;                    // by rank
  std::int64_t size_ = 0;                         // rows left
  std::int64_t first_ = 0;                        // no rank before it is left
  std::vector<std::int32_t> members_;             // ranks, by entry
  std::vector<std::int32_t> ranks_by_mask_size_;  // all ranks, by (size of the mask, rank)
  std::int64_t smallest_ = 0;                     // nothing before it in ranks_by_mask_size_ is left

  std::vector<entry> entries_;
  std::vector<std::int32_t> sizes_;          // of the entries' masks
  std::vector<std::int32_t> entry_of_mask_;  // [masks] or none
  std::int64_t num_used_up_ = 0;             // among entries_
  inverted_lists lists_;
  mask_bitmaps bitmaps_;
  bool has_bitmaps_ = false;
  overlap_counts overlaps_;
  overlap_counts second_overlaps_;
};

}  // namespace warploom
