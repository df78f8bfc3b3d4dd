// The order of Cuthill and McKee (1969) on any graph, from a pseudo-peripheral node of each component (George and Liu
// 1979). Level by level in parallel (Karantasis et al. 2014, Azad et al. 2017) with the result of the serial algorithm:
//
//   components by their lowest node; in each, the start node first, and then, for each node in the order so far, its
//   neighbours that have no place yet by (degree, index).
//
// The start: the node of least (degree, index) among those farthest from the component's lowest node, which is the
// first step of George and Liu. Further steps cost a search of the whole component each and hardly narrow the band.
//
// Graph has num_nodes(), degree(node), for_each_neighbour(node, visit) and prefetch(soon, later), with every edge
// from either side; no node has 2^31 neighbours.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "permutations/chunks.hpp"

namespace warploom {

// A bit for each node: little enough to stay in the cache of a core.
class node_set {
 public:
  explicit node_set(std::int64_t num_nodes) : words_((num_nodes + 63) / 64, 0) {}

  bool has(std::int64_t node) const { return words_[node / 64] >> node % 64 & 1; }
  void add(std::int64_t node) { words_[node / 64] |= bit(node); }

  // For several threads at the same time. Returns whether the node is new.
  bool add_shared(std::int64_t node) { return (set_bits_shared(words_[node / 64], bit(node)) & bit(node)) == 0; }

 private:
  static std::uint64_t bit(std::int64_t node) { return std::uint64_t{1} << node % 64; }

  std::vector<std::uint64_t> words_;
};

template <class Graph>
class cuthill_mckee {
 public:
  explicit cuthill_mckee(const Graph& graph)
      : graph_(graph),
        num_nodes_(graph.num_nodes()),
        order_(num_nodes_),
        place_of_parent_(num_nodes_, unplaced),
        is_placed_(num_nodes_),
        is_reached_(num_nodes_) {}

  std::vector<std::int32_t> compute() && {
    for (std::int64_t node = 0; node < num_nodes_; ++node) {
      if (!is_placed_.has(node)) place_component(static_cast<std::int32_t>(node));
    }
    return std::move(order_);
  }

 private:
  static constexpr std::int32_t unplaced = std::numeric_limits<std::int32_t>::max();
  static constexpr std::int64_t grain = 256;      // nodes a thread takes at a time
  static constexpr std::int64_t look_ahead = 12;  // nodes between asking for a row and reading it

  // Sorts nodes by (degree, index).
  std::uint64_t key(std::int32_t node) const {
    return static_cast<std::uint64_t>(graph_.degree(node)) << 32 | static_cast<std::uint32_t>(node);
  }

  void prefetch(const std::int32_t* nodes, std::int64_t i, std::int64_t end) const {
    if (i + 2 * look_ahead < end) graph_.prefetch(nodes[i + look_ahead], nodes[i + 2 * look_ahead]);
  }

  void place_component(std::int32_t lowest) {
    check_interruption();
    order_[placed_] = farthest_from(lowest);
    is_placed_.add(order_[placed_]);
    std::int64_t begin = placed_++;
    while (begin < placed_) {
      const std::int64_t end = placed_;
      if (end - begin < 2 * grain || num_threads() == 1) {
        place_neighbours(begin, end);
      } else {
        place_neighbours_in_parallel(begin, end);
      }
      begin = end;
    }
  }

  void place_neighbours(std::int64_t begin, std::int64_t end) {
    check_interruption();
    for (std::int64_t place = begin; place < end; ++place) {
      if (place % grain == 0) check_interruption();
      prefetch(order_.data(), place, end);
      const std::int64_t first = placed_;
      graph_.for_each_neighbour(order_[place], [&](std::int32_t node) {
        if (is_placed_.has(node)) return;
        is_placed_.add(node);
        order_[placed_++] = node;
      });
      sort_siblings(first, placed_);
    }
  }

  // Each node of the next level belongs to the first place of this level that it is a neighbour of. The nodes are
  // found in any order, then grouped by that place.
  void place_neighbours_in_parallel(std::int64_t begin, std::int64_t end) {
    std::atomic<std::int64_t> found{0};
    found_.resize(num_nodes_);
    for_chunks(end - begin, grain, [&](std::int64_t first, std::int64_t last) {
      std::vector<std::int32_t> own;
      for (std::int64_t place = begin + first; place < begin + last; ++place) {
        prefetch(order_.data(), place, begin + last);
        graph_.for_each_neighbour(order_[place], [&](std::int32_t node) {
          if (is_placed_.has(node)) return;
          if (lower_shared(place_of_parent_[node], static_cast<std::int32_t>(place)) == unplaced) own.push_back(node);
        });
      }
      std::copy(own.begin(), own.end(), found_.begin() + found.fetch_add(static_cast<std::int64_t>(own.size())));
    });

    next_child_.assign(end - begin + 1, 0);
    for_chunks(found, 8 * grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        add_shared(next_child_[place_of_parent_[found_[i]] - begin + 1], 1);
      }
    });
    next_child_[0] = static_cast<std::int32_t>(placed_);
    for (std::size_t i = 1; i < next_child_.size(); ++i) next_child_[i] += next_child_[i - 1];
    first_child_ = next_child_;
    for_chunks(found, 8 * grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        order_[add_shared(next_child_[place_of_parent_[found_[i]] - begin], 1)] = found_[i];
        is_placed_.add_shared(found_[i]);
      }
    });
    for_chunks(end - begin, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) sort_siblings(first_child_[i], first_child_[i + 1]);
    });
    placed_ += found;
  }

  void sort_siblings(std::int64_t begin, std::int64_t end) {
    if (end - begin < 2) return;
    thread_local std::vector<std::uint64_t> keys;
    keys.clear();
    for (std::int64_t i = begin; i < end; ++i) keys.push_back(key(order_[i]));
    std::sort(keys.begin(), keys.end());
    for (std::int64_t i = begin; i < end; ++i) order_[i] = static_cast<std::int32_t>(keys[i - begin]);
  }

  // Of the nodes farthest from `start`, the first by (degree, index). Uses the free part of order_.
  std::int32_t farthest_from(std::int32_t start) {
    std::int32_t* const queue = order_.data() + placed_;
    queue[0] = start;
    is_reached_.add(start);
    std::int64_t begin = 0, end = 1;
    while (true) {
      const std::int64_t next = reach_neighbours(queue, begin, end);
      if (next == end) break;
      begin = std::exchange(end, next);
    }
    return *std::min_element(queue + begin, queue + end, [&](auto a, auto b) { return key(a) < key(b); });
  }

  // Puts the nodes that are first reached from queue[begin], ..., queue[end - 1] behind them; returns where they end.
  std::int64_t reach_neighbours(std::int32_t* queue, std::int64_t begin, std::int64_t end) {
    if (end - begin < 2 * grain || num_threads() == 1) {
      check_interruption();
      std::int64_t next = end;
      for (std::int64_t i = begin; i < end; ++i) {
        if (i % grain == 0) check_interruption();
        prefetch(queue, i, end);
        graph_.for_each_neighbour(queue[i], [&](std::int32_t node) {
          if (is_reached_.has(node)) return;
          is_reached_.add(node);
          queue[next++] = node;
        });
      }
      return next;
    }
    std::atomic<std::int64_t> next{end};
    for_chunks(end - begin, grain, [&](std::int64_t first, std::int64_t last) {
      std::vector<std::int32_t> own;
      for (std::int64_t i = begin + first; i < begin + last; ++i) {
        prefetch(queue, i, begin + last);
        graph_.for_each_neighbour(queue[i], [&](std::int32_t node) {
          if (is_reached_.add_shared(node)) own.push_back(node);
        });
      }
      std::copy(own.begin(), own.end(), queue + next.fetch_add(static_cast<std::int64_t>(own.size())));
    });
    return next;
  }

  const Graph& graph_;
  std::int64_t num_nodes_;
  std::vector<std::int32_t> order_;            // nodes by their places
  std::vector<std::int32_t> place_of_parent_;  // by node, for those found in parallel
  node_set is_placed_;
  node_set is_reached_;  // from the lowest node of a component
  std::int64_t placed_ = 0;
  std::vector<std::int32_t> found_, next_child_, first_child_;
};

template <class Graph>
std::vector<std::int32_t> cuthill_mckee_order(const Graph& graph) {
  return cuthill_mckee<Graph>(graph).compute();
}

}  // namespace warploom
