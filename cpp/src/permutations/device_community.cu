// The steps of community.cpp. Where that sums weights in hash tables of a thread, edges between clusters are sorted
// here; where it sorts the nodes of each cluster, all nodes are sorted, by their mean places and then by cluster.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device/algorithms.hpp"
#include "device/device_csr.hpp"
#include "device/launch.cuh"
#include "device/runtime.hpp"
#include "device/workspace.hpp"
#include "kernels/device/nonzeros.cuh"
#include "permutations/algorithms.hpp"
#include "permutations/cuthill_mckee.hpp"
#include "permutations/device_clusters.cuh"
#include "permutations/device_community.hpp"
#include "permutations/device_edges.cuh"
#include "permutations/device_node_order.cuh"
#include "permutations/device_pattern_graph.hpp"
#include "permutations/device_permutation.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

using clusters::threads_per_block;
using cuda::pooled_memory;

constexpr std::size_t max_levels = 16;
constexpr unsigned max_rounds = 8;

__global__ void __launch_bounds__(threads_per_block)
    sum_kernel(const std::int32_t* __restrict__ values, unsigned size, unsigned long long* __restrict__ sum) {
  unsigned long long own = 0;
  for (unsigned i = blockIdx.x * threads_per_block + threadIdx.x; i < size; i += gridDim.x * threads_per_block) {
    own += static_cast<unsigned>(values[i]);
  }
  own = cuda::group_sum<32>(own);
  if (cuda::lane_id() == 0 && own != 0) atomicAdd(sum, own);
}

// used[name] = 1 for the names that clusters have; 0 before.
__global__ void __launch_bounds__(threads_per_block)
    used_names_kernel(const std::int32_t* __restrict__ cluster_of, unsigned num_nodes,
                      std::int32_t* __restrict__ used) {
  const unsigned node = blockIdx.x * threads_per_block + threadIdx.x;
  if (node < num_nodes) used[cluster_of[node]] = 1;
}

// Names become numbers; the volumes of clusters, by number, are 0 before.
__global__ void __launch_bounds__(threads_per_block)
    number_clusters_kernel(const std::int32_t* __restrict__ numbers, clusters::graph of,
                           std::int32_t* __restrict__ cluster_of, std::int32_t* __restrict__ volumes) {
  const unsigned node = blockIdx.x * threads_per_block + threadIdx.x;
  if (node >= of.num_nodes) return;
  const std::int32_t number = numbers[cluster_of[node]];
  cluster_of[node] = number;
  atomicAdd(volumes + number, of.volumes[node]);
}

// Edges between clusters, with no_edge in place of those within one.
__global__ void __launch_bounds__(threads_per_block)
    edges_between_kernel(clusters::graph of, const std::int32_t* __restrict__ cluster_of, unsigned num_edges,
                         unsigned edges_of_warp, int bits, std::uint64_t* __restrict__ found) {
  const unsigned warp = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  const unsigned first = min(warp * edges_of_warp, num_edges);
  cuda::for_each_nonzero(of.indptr, static_cast<int>(of.num_nodes), first, min(first + edges_of_warp, num_edges),
                         [&](unsigned j, int node, bool there) {
                           if (!there) return;
                           const unsigned from = cluster_of[node], to = cluster_of[of.neighbours[j]];
                           found[j] = from == to ? edges::no_edge(bits) : edges::pair_of(from, to, bits);
                         });
}

__global__ void gather_kernel(const std::int32_t* __restrict__ from, const std::int32_t* __restrict__ at, unsigned size,
                              std::int32_t* __restrict__ to) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i < size) to[i] = from[at[i]];
}

// The bits of the mean place of the neighbours of each node, which sort as the numbers do. A warp for each node.
__global__ void __launch_bounds__(threads_per_block)
    mean_places_kernel(clusters::graph of, const std::int32_t* __restrict__ places, std::uint64_t* __restrict__ keys) {
  const unsigned node = blockIdx.x * (threads_per_block / 32) + threadIdx.x / 32, lane = cuda::lane_id();
  if (node >= of.num_nodes) return;
  long long sum = 0, weights = 0;
  const auto end = static_cast<unsigned>(of.indptr[node + 1]);
  for (unsigned j = static_cast<unsigned>(of.indptr[node]) + lane; j < end; j += 32) {
    const std::int32_t neighbour = of.neighbours[j];
    if (neighbour == static_cast<std::int32_t>(node)) continue;
    const long long weight = of.weight(j);
    sum += weight * places[neighbour];
    weights += weight;
  }
  sum = cuda::group_sum<32>(sum);
  weights = cuda::group_sum<32>(weights);
  if (lane != 0) return;
  const double mean = weights == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(weights);
  keys[node] = static_cast<std::uint64_t>(__double_as_longlong(mean));
}

// A graph of one level with what it owns.
struct level {
  clusters::graph graph{};
  std::int64_t num_edges = 0;
  std::optional<pooled_memory> indptr, neighbours, weights, volumes;
  std::optional<pooled_memory> cluster_of;  // of its nodes, numbered from 0
  std::optional<pooled_memory> volumes_of_clusters;
  std::int64_t num_clusters = 0;
};

// The neighbours of each node, in host memory.
struct host_graph {
  std::vector<std::int32_t> indptr, neighbours;

  std::int64_t num_nodes() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
  std::int64_t degree(std::int32_t node) const { return indptr[node + 1] - indptr[node]; }
  void prefetch(std::int32_t, std::int32_t) const {}
  template <class Visit>
  void for_each_neighbour(std::int32_t node, Visit&& visit) const {
    for (std::int32_t j = indptr[node]; j < indptr[node + 1]; ++j) visit(neighbours[j]);
  }
};

class device_communities {
 public:
  device_communities(const device_csr& matrix, const device_pattern_graph& pattern)
      : stream_(matrix.stream()), num_rows_(static_cast<unsigned>(matrix.num_rows())) {
    level bottom;
    bottom.graph = {pattern.indptr, pattern.neighbours, nullptr, pattern.degrees.as<const std::int32_t>(),
                    static_cast<unsigned>(pattern.num_nodes)};
    bottom.num_edges = cuda::read_back(pattern.indptr + pattern.num_nodes, stream_);
    levels_.push_back(std::move(bottom));
    const pooled_memory sum(sizeof(unsigned long long), stream_);
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(sum.data(), 0, sizeof(unsigned long long), stream_));
    sum_kernel<<<std::min(cuda::blocks_for(pattern.num_nodes), 1024u), threads_per_block, 0, stream_>>>(
        levels_[0].graph.volumes, levels_[0].graph.num_nodes, sum.as<unsigned long long>());
    cuda::check_launch("sum_kernel");
    total_ = static_cast<long long>(cuda::read_back(sum.as<const unsigned long long>(), stream_));
  }

  // Writes the order of the rows, or returns false where it gives up.
  bool compute(std::int32_t* perm) {
    if (!find_clusters(levels_.back())) return false;
    levels_.push_back(contracted(levels_.back()));
    while (levels_.size() <= max_levels) {
      if (!find_clusters(levels_.back())) return false;
      if (levels_.back().num_clusters == levels_.back().graph.num_nodes) break;
      levels_.push_back(contracted(levels_.back()));
    }
    std::optional<pooled_memory> order(order_of_top());
    for (std::size_t i = levels_.size() - 1; i-- > 0;) {
      pooled_memory below = order_within(levels_[i], order->as<const std::int32_t>());
      order.emplace(std::move(below));
    }
    write_rows(order->as<const std::int32_t>(), perm);
    return true;
  }

 private:
  static constexpr unsigned num_counts = clusters::num_batches * clusters::num_classes;

  template <class T>
  pooled_memory array(std::int64_t size) const {
    return pooled_memory(std::max<std::size_t>(size * sizeof(T), 1), stream_);
  }

  // An array of zeros.
  template <class T>
  pooled_memory zeros(std::int64_t size) const {
    pooled_memory made = array<T>(size);
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(made.data(), 0, size * sizeof(T), stream_));
    return made;
  }

  // Of so many threads, or none.
  template <int BlockThreads = threads_per_block, class... Parameters, class... Arguments>
  void launch(const char* name, void (*kernel)(Parameters...), std::int64_t threads, Arguments... arguments) const {
    cuda::launch<BlockThreads>(name, kernel, threads, stream_, arguments...);
  }

  // Returns false if a node has too many neighbours.
  bool find_clusters(level& of) {
    const std::int64_t nodes = of.graph.num_nodes;
    of.cluster_of.emplace(array<std::int32_t>(nodes));
    const pooled_memory found = array<int2>(nodes), active = array<std::uint8_t>(nodes),
                        target = array<std::int32_t>(nodes), keys = array<std::uint32_t>(nodes),
                        sorted_keys = array<std::uint32_t>(nodes), numbers = array<std::int32_t>(nodes),
                        sorted = array<std::int32_t>(nodes), counted = zeros<unsigned>(num_counts + 1);
    const clusters::clustering state{of.cluster_of->as<std::int32_t>(), found.as<int2>(), active.as<std::uint8_t>(),
                                     target.as<std::int32_t>()};
    launch("start_kernel", clusters::start_kernel, nodes, of.graph, state, keys.as<std::uint32_t>(),
           numbers.as<std::int32_t>(), counted.as<unsigned>());
    cuda::sort_pairs(keys.as<const std::uint32_t>(), sorted_keys.as<std::uint32_t>(), numbers.as<const std::int32_t>(),
                     sorted.as<std::int32_t>(), nodes, cuda::bits_for(num_counts - 1), stream_);
    const auto counts = cuda::read_back(counted.as<const std::array<unsigned, num_counts + 1>>(), stream_);
    const unsigned most_neighbours = counts[num_counts];
    if (most_neighbours > 1u << 28) return false;
    clusters::batch_list batches{};
    for (unsigned i = 0; i < num_counts; ++i) batches.begin[i + 1] = batches.begin[i] + counts[i];
    const unsigned places = clusters::places_for(most_neighbours), num_tables = tables_for(batches, places);
    const pooled_memory tables = array<std::int32_t>(std::int64_t{2} * places * num_tables);
    const clusters::global_tables shared{tables.as<std::int32_t>(), places, num_tables};
    if (!search_at_once(of.graph, state, sorted.as<const std::int32_t>(), batches, shared)) {
      search_by_launches(of.graph, state, sorted.as<const std::int32_t>(), batches, shared);
    }
    number(of);
    return true;
  }

  // Thread blocks that work on large nodes, each of which has a table.
  static unsigned tables_for(const clusters::batch_list& batches, unsigned places) {
    constexpr std::size_t most_bytes = std::size_t{128} << 20;
    unsigned most_of_batch = 0;
    for (unsigned b = 0; b < clusters::num_batches; ++b) {
      most_of_batch = std::max(most_of_batch, count_of(batches, b, clusters::large));
    }
    const auto room = static_cast<unsigned>(std::max<std::size_t>(most_bytes / (8 * std::size_t{places}), 1));
    const auto at_a_time = static_cast<unsigned>(6 * cuda::device_attribute(cudaDevAttrMultiProcessorCount));
    return std::min({most_of_batch, room, at_a_time});
  }

  static unsigned count_of(const clusters::batch_list& batches, unsigned batch, unsigned of_class) {
    const unsigned* const begin = batches.begin + batch * clusters::num_classes + of_class;
    return begin[1] - begin[0];
  }

  // Returns false where the graph is large, or the GPU cannot.
  bool search_at_once(const clusters::graph& graph, const clusters::clustering& state, const std::int32_t* nodes,
                      const clusters::batch_list& batches, const clusters::global_tables& tables) const {
    constexpr unsigned most_nodes = 1 << 17;
    if (graph.num_nodes > most_nodes || !cuda::launches_cooperatively()) return false;
    constexpr unsigned nodes_of_block = clusters::num_batches * clusters::search_threads / 32;
    const pooled_memory counters = zeros<unsigned>(max_rounds + 1);
    const unsigned blocks = std::clamp((graph.num_nodes + nodes_of_block - 1) / nodes_of_block, 1u,
                                       cuda::resident_blocks(clusters::search_kernel, clusters::search_threads));
    cuda::launch_cooperatively(clusters::search_kernel, blocks, clusters::search_threads, stream_, graph, state, total_,
                               nodes, batches, tables, max_rounds, counters.as<unsigned>(),
                               counters.as<unsigned>() + 1);
    return true;
  }

  void search_by_launches(const clusters::graph& graph, const clusters::clustering& state, const std::int32_t* nodes,
                          const clusters::batch_list& batches, const clusters::global_tables& tables) const {
    const pooled_memory moved = zeros<unsigned>(max_rounds);
    for (unsigned round = 0; round < max_rounds; ++round) {
      unsigned* const moved_now = moved.as<unsigned>() + round;
      for (unsigned b = 0; b < clusters::num_batches; ++b) {
        const unsigned* const begin = batches.begin + b * clusters::num_classes;
        const unsigned few = count_of(batches, b, clusters::small), more = count_of(batches, b, clusters::medium),
                       many = count_of(batches, b, clusters::large);
        const std::int32_t* const of_large = nodes + begin[clusters::large];
        launch("decide_small_kernel", clusters::decide_small_kernel, std::int64_t{32} * few, graph, state, total_,
               nodes + begin[clusters::small], few);
        launch<clusters::medium_threads>("decide_medium_kernel", clusters::decide_medium_kernel,
                                         std::int64_t{32} * more, graph, state, total_, nodes + begin[clusters::medium],
                                         more);
        launch<clusters::large_threads>("decide_large_kernel", clusters::decide_large_kernel,
                                        std::int64_t{clusters::large_threads} * std::min(tables.count, many), graph,
                                        state, total_, of_large, many, tables);
        launch("move_kernel", clusters::move_kernel, few + more, graph, state, nodes + begin[clusters::small],
               few + more, moved_now);
        launch("move_large_kernel", clusters::move_large_kernel, std::int64_t{threads_per_block} * many, graph, state,
               of_large, moved_now);
      }
      if (std::int64_t{20} * cuda::read_back(static_cast<const unsigned*>(moved_now), stream_) < graph.num_nodes) break;
    }
  }

  // Clusters get numbers in the order of their names, and volumes.
  void number(level& of) const {
    const std::int64_t nodes = of.graph.num_nodes;
    const pooled_memory numbers = zeros<std::int32_t>(nodes + 1);
    launch("used_names_kernel", used_names_kernel, nodes, of.cluster_of->as<const std::int32_t>(), of.graph.num_nodes,
           numbers.as<std::int32_t>());
    cuda::exclusive_scan(numbers.as<const std::int32_t>(), numbers.as<std::int32_t>(), nodes + 1, stream_);
    of.num_clusters = cuda::read_back(numbers.as<const std::int32_t>() + nodes, stream_);
    of.volumes_of_clusters.emplace(zeros<std::int32_t>(of.num_clusters));
    launch("number_clusters_kernel", number_clusters_kernel, nodes, numbers.as<const std::int32_t>(), of.graph,
           of.cluster_of->as<std::int32_t>(), of.volumes_of_clusters->as<std::int32_t>());
  }

  // The graph whose nodes are the clusters.
  level contracted(level& of) const {
    const std::int64_t nodes = of.num_clusters, edges = of.num_edges;
    // One node more than there are, so that no edge is the pair that stands for none.
    const int bits = cuda::bits_for(static_cast<std::uint64_t>(nodes));
    const pooled_memory found = array<std::uint64_t>(edges), weights = array<std::int32_t>(edges),
                        count = zeros<std::int32_t>(1);
    if (edges > 0) {
      const pooled_memory sorted = array<std::uint64_t>(edges);
      const unsigned share = cuda::nnz_per_warp(edges);
      launch("edges_between_kernel", edges_between_kernel, (edges + share - 1) / share * 32, of.graph,
             of.cluster_of->as<const std::int32_t>(), static_cast<unsigned>(edges), share, bits,
             found.as<std::uint64_t>());
      if (of.graph.weights == nullptr) {
        cuda::sort_keys(found.as<const std::uint64_t>(), sorted.as<std::uint64_t>(), edges, 2 * bits, stream_);
        cuda::count_runs(sorted.as<const std::uint64_t>(), found.as<std::uint64_t>(), weights.as<std::int32_t>(),
                         count.as<std::int32_t>(), edges, stream_);
      } else {
        const pooled_memory sorted_weights = array<std::int32_t>(edges);
        cuda::sort_pairs(found.as<const std::uint64_t>(), sorted.as<std::uint64_t>(), of.graph.weights,
                         sorted_weights.as<std::int32_t>(), edges, 2 * bits, stream_);
        cuda::sum_runs(sorted.as<const std::uint64_t>(), sorted_weights.as<const std::int32_t>(),
                       found.as<std::uint64_t>(), weights.as<std::int32_t>(), count.as<std::int32_t>(), edges, stream_);
      }
    }
    level made;
    made.indptr.emplace(array<std::int32_t>(nodes + 1));
    launch("offsets_kernel", edges::offsets_kernel, nodes + 1, found.as<const std::uint64_t>(),
           count.as<const std::int32_t>(), bits, static_cast<unsigned>(nodes), made.indptr->as<std::int32_t>());
    made.num_edges = cuda::read_back(made.indptr->as<const std::int32_t>() + nodes, stream_);
    made.neighbours.emplace(array<std::int32_t>(made.num_edges + 1));  // one of them may be no edge
    launch("neighbours_kernel", edges::neighbours_kernel, std::min<std::int64_t>(made.num_edges + 1, 1 << 20),
           found.as<const std::uint64_t>(), count.as<const std::int32_t>(), bits, made.neighbours->as<std::int32_t>());
    made.weights.emplace(array<std::int32_t>(made.num_edges));
    WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(made.weights->data(), weights.data(), made.num_edges * sizeof(std::int32_t),
                                        cudaMemcpyDeviceToDevice, stream_));
    made.volumes.emplace(std::move(*of.volumes_of_clusters));
    made.graph = {made.indptr->as<const std::int32_t>(), made.neighbours->as<const std::int32_t>(),
                  made.weights->as<const std::int32_t>(), made.volumes->as<const std::int32_t>(),
                  static_cast<unsigned>(nodes)};
    return made;
  }

  // The clusters of the last level, few as a rule, are put in order by the host.
  pooled_memory order_of_top() const {
    const clusters::graph& top = levels_.back().graph;
    host_graph graph{std::vector<std::int32_t>(top.num_nodes + std::size_t{1}),
                     std::vector<std::int32_t>(levels_.back().num_edges)};
    const auto download = [&](std::vector<std::int32_t>& to, const std::int32_t* from) {
      WARPLOOM_CUDA_CHECK(
          cudaMemcpyAsync(to.data(), from, to.size() * sizeof(std::int32_t), cudaMemcpyDeviceToHost, stream_));
    };
    download(graph.indptr, top.indptr);
    download(graph.neighbours, top.neighbours);
    WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream_));
    const std::vector<std::int32_t> order = cuthill_mckee_order(graph);
    pooled_memory there = array<std::int32_t>(top.num_nodes);
    WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(there.data(), order.data(), order.size() * sizeof(std::int32_t),
                                        cudaMemcpyHostToDevice, stream_));
    WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream_));
    return there;
  }

  // The nodes of a graph, from the order of the clusters that they are in.
  pooled_memory order_within(const level& of, const std::int32_t* order_of_clusters) const {
    const std::int64_t nodes = of.graph.num_nodes;
    const std::int32_t* const cluster_of = of.cluster_of->as<const std::int32_t>();
    const pooled_memory place_of_cluster = array<std::int32_t>(of.num_clusters), places = array<std::int32_t>(nodes),
                        keys = array<std::uint64_t>(nodes), sorted_keys = array<std::uint64_t>(nodes),
                        by_mean = array<std::int32_t>(nodes);
    pooled_memory order = array<std::int32_t>(nodes);
    launch("invert_kernel", node_order::invert_kernel, of.num_clusters, order_of_clusters,
           static_cast<unsigned>(of.num_clusters), place_of_cluster.as<std::int32_t>());
    launch("gather_kernel", gather_kernel, nodes, place_of_cluster.as<const std::int32_t>(), cluster_of,
           of.graph.num_nodes, places.as<std::int32_t>());
    launch("mean_places_kernel", mean_places_kernel, 32 * nodes, of.graph, places.as<const std::int32_t>(),
           keys.as<std::uint64_t>());
    launch("count_up_kernel", node_order::count_up_kernel, nodes, of.graph.num_nodes, order.as<std::int32_t>());
    cuda::sort_pairs(keys.as<const std::uint64_t>(), sorted_keys.as<std::uint64_t>(), order.as<const std::int32_t>(),
                     by_mean.as<std::int32_t>(), nodes, 63, stream_);
    launch("gather_kernel", gather_kernel, nodes, places.as<const std::int32_t>(), by_mean.as<const std::int32_t>(),
           of.graph.num_nodes, keys.as<std::int32_t>());
    cuda::sort_pairs(keys.as<const std::uint32_t>(), sorted_keys.as<std::uint32_t>(), by_mean.as<const std::int32_t>(),
                     order.as<std::int32_t>(), nodes,
                     cuda::bits_for(static_cast<std::uint64_t>(std::max<std::int64_t>(of.num_clusters - 1, 0))),
                     stream_);
    return order;
  }

  // Those of the nodes that are rows.
  void write_rows(const std::int32_t* order, std::int32_t* perm) const {
    const unsigned nodes = levels_[0].graph.num_nodes;
    if (num_rows_ == nodes) {
      WARPLOOM_CUDA_CHECK(
          cudaMemcpyAsync(perm, order, nodes * sizeof(std::int32_t), cudaMemcpyDeviceToDevice, stream_));
      return;
    }
    const pooled_memory places =
        node_order::places_of_rows(order, nodes, static_cast<std::int32_t>(num_rows_), stream_);
    launch("gather_kernel", gather_kernel, num_rows_, order, places.as<const std::int32_t>(), num_rows_, perm);
  }

  cudaStream_t stream_;
  unsigned num_rows_;
  long long total_ = 0;  // volume of all nodes, at every level
  std::vector<level> levels_;
};

}  // namespace

device_permutation community_permutation_on_gpu(const device_csr& matrix, const geometry&,
                                                const device_allocator& allocate) {
  return permutation_unless_given_up(matrix, allocate, [&](std::int32_t* perm) {
    const std::optional<device_pattern_graph> graph = device_pattern_graph::of(matrix);
    return graph && device_communities(matrix, *graph).compute(perm);
  });
}

}  // namespace warploom
