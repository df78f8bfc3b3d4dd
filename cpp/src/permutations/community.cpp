// Communities within communities, each a contiguous range of rows, as in Rabbit order: Arai et al., "Rabbit order:
// just-in-time parallel reordering for fast graph analysis" (2016). Clusters are found (communities.hpp), become the
// nodes of the next level's graph, and so on until none merges any more. Numbered from the top: the clusters of the
// last level in the order of Cuthill and McKee; within each cluster, what it is made of by the mean place of its
// neighbours' clusters, so that what touches another cluster lies on that side; then by index.
//
// On the graph of A + A^T for square matrices, and else on the bipartite graph of rows and columns.
#include <memory>

#include "permutations/algorithms.hpp"
#include "permutations/communities.hpp"
#include "permutations/cuthill_mckee.hpp"
#include "permutations/pattern_graph.hpp"

namespace warploom {
namespace {

constexpr std::size_t max_levels = 16;

// The graph at the bottom, with weights.
struct unit_weights {
  const pattern_graph& graph;

  std::int64_t num_nodes() const { return graph.num_nodes(); }
  std::int64_t volume(std::int32_t node) const { return graph.degree(node); }
  void prefetch(std::int32_t soon, std::int32_t later) const { graph.prefetch(soon, later); }
  template <class Visit>
  void for_each_weighted(std::int32_t node, Visit&& visit) const {
    graph.for_each_neighbour(node, [&](std::int32_t neighbour) { visit(neighbour, 1); });
  }
};

// The clusters of a graph's nodes, numbered from 0 in the order of their names.
struct clustering {
  std::vector<std::int32_t> cluster_of;
  std::int64_t num_clusters = 0;
};

template <class Graph>
clustering find_clusters(const Graph& graph) {
  clustering found{cluster_search<Graph>(graph).find()};
  std::vector<std::int32_t> number(found.cluster_of.size(), 0);
  for (const std::int32_t name : found.cluster_of) number[name] = 1;
  for (std::int32_t& n : number) n = n == 0 ? -1 : static_cast<std::int32_t>(found.num_clusters++);
  for (std::int32_t& cluster : found.cluster_of) cluster = number[cluster];
  return found;
}

// Places of the nodes of a graph, from those of the clusters that they are in.
template <class Graph>
std::vector<std::int32_t> order_within(const Graph& graph, const clustering& in,
                                       const std::vector<std::int32_t>& order_of_clusters) {
  constexpr std::int64_t grain = 256;
  std::vector<std::int32_t> place_of_cluster(in.num_clusters);
  for (std::int64_t p = 0; p < in.num_clusters; ++p) place_of_cluster[order_of_clusters[p]] = p;
  std::vector<std::int32_t> place(graph.num_nodes());
  for_chunks(graph.num_nodes(), 16 * grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t node = begin; node < end; ++node) place[node] = place_of_cluster[in.cluster_of[node]];
  });
  std::vector<double> mean_place(graph.num_nodes());
  for_chunks(graph.num_nodes(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t node = begin; node < end; ++node) {
      std::int64_t sum = 0, weights = 0;
      graph.for_each_weighted(static_cast<std::int32_t>(node), [&](std::int32_t neighbour, std::int64_t weight) {
        if (neighbour == node) return;
        sum += weight * place[neighbour];
        weights += weight;
      });
      mean_place[node] = weights == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(weights);
    }
  });
  members_of_clusters ordered(place, in.num_clusters);
  for_chunks(in.num_clusters, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      std::sort(ordered.nodes.begin() + ordered.begin[p], ordered.nodes.begin() + ordered.begin[p + 1],
                [&](auto a, auto b) { return std::pair(mean_place[a], a) < std::pair(mean_place[b], b); });
    }
  });
  return std::move(ordered.nodes);
}

}  // namespace

row_permutation community_permutation(const csr_pattern& matrix, const geometry&) {
  const pattern_graph pattern(matrix);
  const unit_weights bottom{pattern};
  std::vector<clustering> levels{find_clusters(bottom)};
  std::vector<std::unique_ptr<cluster_graph>> graphs;  // graphs[i] is between levels[i] and levels[i + 1]
  graphs.push_back(
      std::make_unique<cluster_graph>(cluster_graph::contract(bottom, levels[0].cluster_of, levels[0].num_clusters)));
  while (levels.size() < max_levels) {
    clustering next = find_clusters(*graphs.back());
    if (next.num_clusters == graphs.back()->num_nodes()) break;
    graphs.push_back(
        std::make_unique<cluster_graph>(cluster_graph::contract(*graphs.back(), next.cluster_of, next.num_clusters)));
    levels.push_back(std::move(next));
  }
  std::vector<std::int32_t> order = cuthill_mckee_order(*graphs.back());
  for (std::size_t level = levels.size() - 1; level > 0; --level) {
    order = order_within(*graphs[level - 1], levels[level], order);
  }
  row_permutation perm = order_within(bottom, levels[0], order);
  if (pattern.is_bipartite()) std::erase_if(perm, [&](std::int32_t node) { return node >= pattern.num_rows(); });
  return perm;
}

}  // namespace warploom
