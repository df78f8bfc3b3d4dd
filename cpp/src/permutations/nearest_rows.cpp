#include "permutations/nearest_rows.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "warploom/interruption.hpp"

namespace warploom {
namespace {

constexpr std::int64_t bitmap_bytes_always_fine = 64 << 20;
constexpr std::int64_t bitmap_bytes_per_list_entry = 16;

// Rebuild only when that saves more than it costs.
constexpr std::int64_t fewest_used_up = 64;

// Nanoseconds on a server core. Only their ratio matters: an entry of a list against a word of a bitmap.
constexpr double list_step_cost = 8.0;
constexpr double bitmap_word_cost = 0.7;
constexpr double bitmap_overhead_words = 8;  // bitmaps' worth of work that a query costs beyond its own bits

}  // namespace

void nearest_rows::overlap_counts::add(const inverted_lists& lists, std::span<const std::int32_t> query) {
  for (const std::int32_t bit : query) {
    for (const std::int32_t e : lists[bit]) {
      touched[num_touched] = e;
      num_touched += count[e] == 0;
      ++count[e];
    }
  }
}

void nearest_rows::overlap_counts::clear() {
  for (std::int32_t i = 0; i < num_touched; ++i) count[touched[i]] = 0;
  num_touched = 0;
}

nearest_rows::nearest_rows(const row_masks& masks) : masks_(masks), entry_of_mask_(masks.num_masks(), none) {}

void nearest_rows::fill(std::span<const std::int32_t> rows) {
  forget_entries();
  rows_.assign(rows.begin(), rows.end());
  is_taken_.assign(rows.size(), false);
  size_ = static_cast<std::int64_t>(rows.size());
  first_ = 0;
  smallest_ = 0;
  make_entries();
  rebuild();
}

void nearest_rows::forget_entries() {
  for (const entry& e : entries_) entry_of_mask_[e.mask] = none;
  entries_.clear();
}

// Groups the ranks by mask. Ranks ascend within an entry, and entries by their first rank.
void nearest_rows::make_entries() {
  const auto mask_of = [&](std::int32_t rank) { return masks_.mask_of_row[rows_[rank]]; };
  const auto num_ranks = static_cast<std::int32_t>(rows_.size());
  for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
    std::int32_t& e = entry_of_mask_[mask_of(rank)];
    if (e == none) {
      e = static_cast<std::int32_t>(entries_.size());
      entries_.push_back({mask_of(rank), 0, 0, rank});
    }
    ++entries_[e].end;  // the number of members for now
  }
  std::int32_t begin = 0;
  for (entry& e : entries_) {
    const std::int32_t members = e.end;
    e.next = e.end = begin;
    begin += members;
  }
  members_.resize(num_ranks);
  for (std::int32_t rank = 0; rank < num_ranks; ++rank) members_[entries_[entry_of_mask_[mask_of(rank)]].end++] = rank;

  ranks_by_mask_size_.resize(num_ranks);
  std::iota(ranks_by_mask_size_.begin(), ranks_by_mask_size_.end(), 0);
  std::stable_sort(ranks_by_mask_size_.begin(), ranks_by_mask_size_.end(),
                   [&](auto a, auto b) { return masks_.size(mask_of(a)) < masks_.size(mask_of(b)); });
}

// Leaves out the entries that are used up and renumbers the others, by their first remaining rank.
void nearest_rows::rebuild() {
  std::erase_if(entries_, [](const entry& e) { return e.next == e.end; });
  for (entry& e : entries_) e.first_rank = members_[e.next];
  std::sort(entries_.begin(), entries_.end(), [](auto& a, auto& b) { return a.first_rank < b.first_rank; });
  num_used_up_ = 0;
  const std::size_t num_entries = entries_.size();
  sizes_.resize(num_entries);
  for (std::size_t e = 0; e < num_entries; ++e) {
    entry_of_mask_[entries_[e].mask] = static_cast<std::int32_t>(e);
    sizes_[e] = masks_.size(entries_[e].mask);
  }
  for (overlap_counts* overlaps : {&overlaps_, &second_overlaps_}) {
    overlaps->count.assign(num_entries, 0);
    overlaps->touched.resize(num_entries + 1);  // add() writes one past the last
  }
  build_lists();
  const std::int64_t bytes = mask_bitmaps::bytes(masks_.num_bits, num_entries);
  const auto list_entries = static_cast<std::int64_t>(lists_.list.size());
  has_bitmaps_ =
      num_entries > 1 && bytes <= std::max(bitmap_bytes_always_fine, bitmap_bytes_per_list_entry * list_entries);
  if (has_bitmaps_) bitmaps_.build(lists_, sizes_);
}

void nearest_rows::build_lists() {
  // begin[bit + 1] is first the place to fill next, so that in the end it is where the list ends.
  lists_.begin.assign(masks_.num_bits + std::int64_t{2}, 0);
  for (const entry& e : entries_) {
    for (const std::int32_t bit : masks_[e.mask]) ++lists_.begin[bit + 2];
  }
  std::partial_sum(lists_.begin.begin(), lists_.begin.end(), lists_.begin.begin());
  lists_.list.resize(lists_.begin.back());
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    for (const std::int32_t bit : masks_[entries_[e].mask]) {
      lists_.list[lists_.begin[bit + 1]++] = static_cast<std::int32_t>(e);
    }
  }
  lists_.begin.pop_back();
}

std::int32_t nearest_rows::take(std::int32_t e) {
  check_interruption();  // one step of a search that may take minutes
  const std::int32_t rank = members_[entries_[e].next++];
  is_taken_[rank] = true;
  --size_;
  if (is_used_up(e)) {
    entry_of_mask_[entries_[e].mask] = none;
    if (has_bitmaps_) bitmaps_.remove(e);
    ++num_used_up_;
  }
  return rows_[rank];
}

std::int32_t nearest_rows::take_first() {
  while (is_taken_[first_]) ++first_;
  return take(entry_of_mask_[masks_.mask_of_row[rows_[first_]]]);
}

std::int32_t nearest_rows::take_nearest(std::int32_t row) {
  return take_nearest_to_mask(masks_.mask_of_row[row], none);
}

std::int32_t nearest_rows::take_nearest(std::int32_t row, std::int32_t second) {
  return take_nearest_to_mask(masks_.mask_of_row[row], masks_.mask_of_row[second]);
}

std::int32_t nearest_rows::take_nearest_to_mask(std::int32_t mask, std::int32_t second_mask) {
  if (entry_of_mask_[mask] != none) return take(entry_of_mask_[mask]);  // distance 0, and all at 0 are in this entry
  const auto num_entries = static_cast<std::int64_t>(entries_.size());
  if (num_used_up_ > std::max(fewest_used_up, num_entries / 4)) rebuild();
  return take(bitmaps_are_cheaper(masks_[mask]) ? find_in_bitmaps(mask, second_mask)
                                                : find_in_lists(mask, second_mask));
}

bool nearest_rows::bitmaps_are_cheaper(std::span<const std::int32_t> query) const {
  if (!has_bitmaps_) return false;
  std::int64_t list_steps = 0;
  for (const std::int32_t bit : query) list_steps += lists_.size(bit);
  const double words = static_cast<double>(entries_.size()) / 64;
  return list_step_cost * static_cast<double>(list_steps) >
         bitmap_word_cost * words * (static_cast<double>(query.size()) + bitmap_overhead_words);
}

std::int32_t nearest_rows::find_in_bitmaps(std::int32_t mask, std::int32_t second_mask) {
  bitmaps_.find_nearest(masks_[mask]);
  if (second_mask != none && bitmaps_.has_several_marked()) bitmaps_.narrow(masks_[second_mask]);
  std::int32_t best = none;
  bitmaps_.for_each_marked([&](std::int32_t e) {
    // An entry's rank only grows after a rebuild, so entries from here on cannot come before the best.
    if (best != none && entries_[e].first_rank > rank(best)) return false;
    if (best == none || rank(e) < rank(best)) best = e;
    return true;
  });
  return best;
}

// The entry with the smallest mask, and of these the one with the lowest rank.
std::int32_t nearest_rows::smallest_entry() {
  while (is_taken_[ranks_by_mask_size_[smallest_]]) ++smallest_;
  return entry_of_mask_[masks_.mask_of_row[rows_[ranks_by_mask_size_[smallest_]]]];
}

std::int32_t nearest_rows::find_in_lists(std::int32_t mask, std::int32_t second_mask) {
  overlaps_.add(lists_, masks_[mask]);
  // |mask| is the same for all. An entry that shares no bit with the mask is at least as far as the smallest entry.
  const auto relative_distance = [&](std::int32_t e) { return sizes_[e] - 2 * overlaps_.count[e]; };
  std::int32_t best = smallest_entry();
  std::int32_t least = relative_distance(best);
  for (std::int32_t i = 0; i < overlaps_.num_touched; ++i) {
    const std::int32_t e = overlaps_.touched[i];
    const std::int32_t distance = relative_distance(e);
    if (distance > least || is_used_up(e)) continue;
    if (distance < least || rank(e) < rank(best)) best = e;
    least = distance;
  }
  if (second_mask != none) best = break_tie_in_lists(least, second_mask);
  overlaps_.clear();
  return best;
}

// Among the entries at the relative distance `least`, the one nearest to the second mask, then of the lowest rank.
std::int32_t nearest_rows::break_tie_in_lists(std::int32_t least, std::int32_t second_mask) {
  second_overlaps_.add(lists_, masks_[second_mask]);
  std::int32_t best = none;
  std::int32_t best_distance = std::numeric_limits<std::int32_t>::max();
  const auto consider = [&](std::int32_t e) {
    if (sizes_[e] - 2 * overlaps_.count[e] != least || is_used_up(e)) return;
    const std::int32_t distance = sizes_[e] - 2 * second_overlaps_.count[e];
    if (distance < best_distance || (distance == best_distance && rank(e) < rank(best))) {
      best = e;
      best_distance = distance;
    }
  };
  // Entries that share a bit with neither mask are again at least as far as the smallest entry, from both.
  consider(smallest_entry());
  for (std::int32_t i = 0; i < overlaps_.num_touched; ++i) consider(overlaps_.touched[i]);
  for (std::int32_t i = 0; i < second_overlaps_.num_touched; ++i) consider(second_overlaps_.touched[i]);
  second_overlaps_.clear();
  return best;
}

}  // namespace warploom
