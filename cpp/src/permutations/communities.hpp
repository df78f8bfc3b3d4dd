// Communities of a graph, found by moving nodes between clusters as in the method of Louvain (Blondel et al. 2008):
// each node joins the neighbouring cluster with the largest gain of modularity. In batches of nodes: those of a batch
// decide at the same time, on what the batches before them left (as in the deterministic partitioning of Gottesbueren
// and Hamann 2022), so that the result does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "permutations/chunks.hpp"

namespace warploom {

// Sums of weights by cluster: a hash table that is emptied in the time it took to fill.
class cluster_weights {
 public:
  cluster_weights() : keys_(64, empty), weights_(64) {}

  void add(std::int32_t cluster, std::int64_t weight) {
    std::size_t slot = slot_of(cluster);
    while (keys_[slot] != cluster) {
      if (keys_[slot] == empty) {
        if (2 * used_.size() >= keys_.size()) {
          grow();
          return add(cluster, weight);
        }
        keys_[slot] = cluster;
        weights_[slot] = 0;
        used_.push_back(static_cast<std::uint32_t>(slot));
        break;
      }
      slot = (slot + 1) & (keys_.size() - 1);
    }
    weights_[slot] += weight;
  }

  // Calls visit(cluster, weight) in the order in which the clusters were first added.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const std::uint32_t slot : used_) visit(keys_[slot], weights_[slot]);
  }

  std::size_t size() const { return used_.size(); }

  void clear() {
    for (const std::uint32_t slot : used_) keys_[slot] = empty;
    used_.clear();
  }

 private:
  static constexpr std::int32_t empty = -1;

  std::size_t slot_of(std::int32_t cluster) const {
    const std::uint32_t hash = static_cast<std::uint32_t>(cluster) * 0x9e3779b1u;
    return (hash ^ hash >> 15) & (keys_.size() - 1);
  }

  void grow() {
    std::vector<std::int32_t> keys;
    std::vector<std::int64_t> weights;
    for_each([&](std::int32_t key, std::int64_t weight) {
      keys.push_back(key);
      weights.push_back(weight);
    });
    keys_.assign(2 * keys_.size(), empty);
    weights_.resize(keys_.size());
    used_.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) add(keys[i], weights[i]);
  }

  std::vector<std::int32_t> keys_;
  std::vector<std::int64_t> weights_;
  std::vector<std::uint32_t> used_;  // slots
};

// A graph whose nodes are clusters of another one's.
class cluster_graph {
 public:
  std::int64_t num_nodes() const { return static_cast<std::int64_t>(volumes_.size()); }
  std::int64_t degree(std::int32_t node) const { return indptr_[node + 1] - indptr_[node]; }

  // The summed degrees of what the node is made of, in the graph at the bottom.
  std::int64_t volume(std::int32_t node) const { return volumes_[node]; }

  template <class Visit>
  void for_each_weighted(std::int32_t node, Visit&& visit) const {
    for (std::int64_t j = indptr_[node]; j < indptr_[node + 1]; ++j) visit(neighbours_[j], weights_[j]);
  }

  template <class Visit>
  void for_each_neighbour(std::int32_t node, Visit&& visit) const {
    for (std::int64_t j = indptr_[node]; j < indptr_[node + 1]; ++j) visit(neighbours_[j]);
  }

  void prefetch(std::int32_t soon, std::int32_t later) const {
    __builtin_prefetch(indptr_.data() + later);
    __builtin_prefetch(neighbours_.data() + indptr_[soon]);
    __builtin_prefetch(weights_.data() + indptr_[soon]);
  }

  // `cluster_of` numbers the clusters of the nodes of `graph` from 0.
  template <class Graph>
  static cluster_graph contract(const Graph& graph, const std::vector<std::int32_t>& cluster_of,
                                std::int64_t num_clusters);

 private:
  std::vector<std::int64_t> indptr_;
  std::vector<std::int32_t> neighbours_;
  std::vector<std::int64_t> weights_;
  std::vector<std::int64_t> volumes_;
};

// Nodes by cluster, ascending: those of cluster c are nodes[begin[c]], ..., nodes[begin[c + 1] - 1].
struct members_of_clusters {
  members_of_clusters(const std::vector<std::int32_t>& cluster_of, std::int64_t num_clusters)
      : begin(num_clusters + 1, 0), nodes(cluster_of.size()) {
    for (const std::int32_t c : cluster_of) ++begin[c + 1];
    for (std::int64_t c = 0; c < num_clusters; ++c) begin[c + 1] += begin[c];
    std::vector<std::int64_t> next(begin.begin(), begin.end() - 1);
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      nodes[next[cluster_of[node]]++] = static_cast<std::int32_t>(node);
    }
  }

  std::vector<std::int64_t> begin;
  std::vector<std::int32_t> nodes;
};

template <class Graph>
cluster_graph cluster_graph::contract(const Graph& graph, const std::vector<std::int32_t>& cluster_of,
                                      std::int64_t num_clusters) {
  constexpr std::int64_t grain = 256, look_ahead = 4;
  struct part {
    std::vector<std::int32_t> neighbours;
    std::vector<std::int64_t> weights;
  };
  const members_of_clusters members(cluster_of, num_clusters);
  cluster_graph result;
  result.indptr_.assign(num_clusters + 1, 0);
  result.volumes_.assign(num_clusters, 0);
  std::vector<part> parts((num_clusters + grain - 1) / grain);
  for_chunks(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t first_part, std::int64_t) {
    part& own = parts[first_part];
    cluster_weights weights;
    const std::int64_t first = first_part * grain, last = std::min(num_clusters, first + grain);
    for (std::int64_t cluster = first; cluster < last; ++cluster) {
      for (std::int64_t i = members.begin[cluster]; i < members.begin[cluster + 1]; ++i) {
        const std::int32_t node = members.nodes[i];
        if (i + 2 * look_ahead < members.begin[last]) {
          graph.prefetch(members.nodes[i + look_ahead], members.nodes[i + 2 * look_ahead]);
        }
        result.volumes_[cluster] += graph.volume(node);
        graph.for_each_weighted(node, [&](std::int32_t neighbour, std::int64_t weight) {
          if (cluster_of[neighbour] != cluster) weights.add(cluster_of[neighbour], weight);
        });
      }
      weights.for_each([&](std::int32_t neighbour, std::int64_t weight) {
        own.neighbours.push_back(neighbour);
        own.weights.push_back(weight);
      });
      result.indptr_[cluster + 1] = static_cast<std::int64_t>(weights.size());
      weights.clear();
    }
  });
  for (std::int64_t c = 0; c < num_clusters; ++c) result.indptr_[c + 1] += result.indptr_[c];
  result.neighbours_.resize(result.indptr_.back());
  result.weights_.resize(result.indptr_.back());
  for_chunks(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t p, std::int64_t) {
    const std::int64_t at = result.indptr_[p * grain];
    std::copy(parts[p].neighbours.begin(), parts[p].neighbours.end(), result.neighbours_.begin() + at);
    std::copy(parts[p].weights.begin(), parts[p].weights.end(), result.weights_.begin() + at);
  });
  return result;
}

// Finds clusters. They are named by one of the nodes of the graph each.
template <class Graph>
class cluster_search {
 public:
  explicit cluster_search(const Graph& graph)
      : graph_(graph),
        num_nodes_(graph.num_nodes()),
        cluster_of_(num_nodes_),
        clusters_(num_nodes_),
        is_active_(num_nodes_, 1),
        target_(num_nodes_) {
    for (std::int64_t node = 0; node < num_nodes_; ++node) {
      cluster_of_[node] = static_cast<std::int32_t>(node);
      clusters_[node] = {graph.volume(static_cast<std::int32_t>(node)), 1};
      total_ += clusters_[node].volume;
      batches_[batch_of(static_cast<std::uint32_t>(node))].push_back(static_cast<std::int32_t>(node));
    }
  }

  std::vector<std::int32_t> find() && {
    for (int round = 0; round < max_rounds; ++round) {
      std::int64_t moved = 0;
      for (const auto& batch : batches_) moved += move(batch);
      if (20 * moved < num_nodes_) break;
    }
    return std::move(cluster_of_);
  }

 private:
  static constexpr int num_batches = 16;
  static constexpr int max_rounds = 8;
  static constexpr std::int64_t grain = 256;
  static constexpr std::int64_t look_ahead = 4;
  __extension__ typedef __int128 wide;

  struct cluster {
    std::int64_t volume;
    std::int64_t size;
  };

  static int batch_of(std::uint32_t node) {
    node = (node ^ node >> 16) * 0x85ebca6bu;
    return static_cast<int>((node ^ node >> 13) % num_batches);
  }

  std::int64_t move(const std::vector<std::int32_t>& batch) {
    const auto size = static_cast<std::int64_t>(batch.size());
    std::atomic<std::int64_t> moved{0};
    for_chunks(size, grain, [&](std::int64_t begin, std::int64_t end) {
      thread_local cluster_weights weights;
      thread_local std::vector<std::pair<std::int32_t, std::int64_t>> seen;  // clusters of the neighbours, with weights
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int32_t node = batch[i];
        if (i + 2 * look_ahead < end) graph_.prefetch(batch[i + look_ahead], batch[i + 2 * look_ahead]);
        target_[i] = cluster_of_[node];
        if (!is_active_[node]) continue;
        is_active_[node] = 0;
        seen.clear();  // first, since these reads do not wait for each other
        graph_.for_each_weighted(node, [&](std::int32_t neighbour, std::int64_t weight) {
          seen.emplace_back(cluster_of_[neighbour], weight);
          __builtin_prefetch(&clusters_[seen.back().first]);
        });
        weights.clear();
        for (const auto& [cluster, weight] : seen) weights.add(cluster, weight);
        target_[i] = best_cluster(node, weights);
      }
    });
    for_chunks(size, grain, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t own_moved = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int32_t node = batch[i], from = cluster_of_[node], to = target_[i];
        if (from == to) continue;
        ++own_moved;
        cluster_of_[node] = to;
        const std::int64_t volume = graph_.volume(node);
        add_shared(clusters_[from].volume, -volume);
        add_shared(clusters_[to].volume, volume);
        add_shared(clusters_[from].size, std::int64_t{-1});
        add_shared(clusters_[to].size, std::int64_t{1});
        graph_.for_each_weighted(
            node, [&](std::int32_t neighbour, std::int64_t) { store_shared(is_active_[neighbour], std::uint8_t{1}); });
      }
      moved += own_moved;
    });
    return moved;
  }

  // Of the neighbouring clusters and the own one, that of the largest gain of modularity; among equals the own one,
  // then the one of the lowest name. Of two nodes alone in their clusters, only the higher joins the other: they could
  // change places for ever.
  std::int32_t best_cluster(std::int32_t node, const cluster_weights& weights) const {
    const std::int32_t own = cluster_of_[node];
    const std::int64_t volume = graph_.volume(node);
    const auto gain = [&](std::int64_t weight, std::int64_t volume_of_others) {
      return wide{weight} * total_ - wide{volume} * volume_of_others;
    };
    std::int64_t weight_to_own = 0;
    weights.for_each([&](std::int32_t cluster, std::int64_t weight) {
      if (cluster == own) weight_to_own = weight;
    });
    std::int32_t best = own;
    wide largest = gain(weight_to_own, clusters_[own].volume - volume);
    const bool is_alone = clusters_[own].size == 1;
    weights.for_each([&](std::int32_t cluster, std::int64_t weight) {
      if (cluster == own || (is_alone && cluster > own && clusters_[cluster].size == 1)) return;
      const wide found = gain(weight, clusters_[cluster].volume);
      if (found > largest || (found == largest && best != own && cluster < best)) {
        largest = found;
        best = cluster;
      }
    });
    return best;
  }

  const Graph& graph_;
  std::int64_t num_nodes_;
  std::int64_t total_ = 0;  // volume
  std::vector<std::int32_t> cluster_of_;
  std::vector<cluster> clusters_;        // by name
  std::vector<std::uint8_t> is_active_;  // nodes with a neighbour that has moved since they last decided
  std::vector<std::int32_t> target_;     // by place in the batch
  std::vector<std::int32_t> batches_[num_batches];
};

}  // namespace warploom
