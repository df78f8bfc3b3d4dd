// The steps of cuthill_mckee.hpp, for all components at the same time: a level of the search holds the nodes of that
// depth in any of them, those of the component with the lowest node first. At the end the order is sorted by component.
#include <algorithm>
#include <optional>

#include "device/algorithms.hpp"
#include "device/device_csr.hpp"
#include "device/launch.cuh"
#include "device/runtime.hpp"
#include "device/workspace.hpp"
#include "permutations/algorithms.hpp"
#include "permutations/device_components.cuh"
#include "permutations/device_node_order.cuh"
#include "permutations/device_pattern_graph.hpp"
#include "permutations/device_permutation.hpp"
#include "permutations/device_rcm.hpp"
#include "permutations/device_search.cuh"

namespace warploom {
namespace {

using components::threads_per_block;

__global__ void start_depths_kernel(const std::int32_t* __restrict__ starts, unsigned count,
                                    unsigned* __restrict__ depths) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i < count) depths[starts[i]] = 0;
}

// The depth of the deepest node of each component, by its label; `deepest` is 0 before.
__global__ void __launch_bounds__(threads_per_block)
    deepest_kernel(const unsigned* __restrict__ labels, const unsigned* __restrict__ depths, unsigned num_nodes,
                   unsigned* deepest) {
  const unsigned node = blockIdx.x * threads_per_block + threadIdx.x;
  if (node >= num_nodes) return;
  if (__ldcg(deepest + labels[node]) < depths[node]) atomicMax(deepest + labels[node], depths[node]);
}

// The lowest rank among the deepest nodes of each component; `lowest` is all ones before.
__global__ void __launch_bounds__(threads_per_block)
    lowest_rank_kernel(const unsigned* __restrict__ labels, const unsigned* __restrict__ depths,
                       const unsigned* __restrict__ deepest, const std::int32_t* __restrict__ ranks, unsigned num_nodes,
                       unsigned* lowest) {
  const unsigned node = blockIdx.x * threads_per_block + threadIdx.x;
  if (node >= num_nodes) return;
  const unsigned label = labels[node];
  if (depths[node] == deepest[label]) atomicMin(lowest + label, static_cast<unsigned>(ranks[node]));
}

// Puts the nodes to start from in the place of the lowest ones.
__global__ void start_places_kernel(const unsigned* __restrict__ lowest_ranks,
                                    const std::int32_t* __restrict__ node_of_rank, unsigned count,
                                    std::int32_t* __restrict__ queue, unsigned* __restrict__ parents) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i >= count) return;
  const std::int32_t start = node_of_rank[lowest_ranks[queue[i]]];
  queue[i] = start;
  parents[start] = 0;
}

__global__ void labels_kernel(const std::int32_t* __restrict__ order, const unsigned* __restrict__ labels,
                              unsigned size, std::uint32_t* __restrict__ keys) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i < size) keys[i] = labels[order[i]];
}

// `places` null: all.
__global__ void reverse_kernel(const std::int32_t* __restrict__ order, const std::int32_t* __restrict__ places,
                               unsigned size, std::int32_t* __restrict__ perm) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i < size) perm[size - 1 - i] = order[places == nullptr ? i : static_cast<unsigned>(places[i])];
}

class device_cuthill_mckee {
 public:
  device_cuthill_mckee(const device_csr& matrix, const device_pattern_graph& graph)
      : matrix_(matrix),
        graph_(graph),
        stream_(matrix.stream()),
        nodes_(static_cast<unsigned>(graph.num_nodes)),
        labels_(array<unsigned>()),
        ranks_(array<std::int32_t>()),
        node_of_rank_(array<std::int32_t>()),
        queue_(array<std::int32_t>()),
        by_node_(array<unsigned>()) {}

  // Writes the reversed order of the rows, or returns false where it gives up.
  bool compute(std::int32_t* perm) {
    if (!cuda::launches_cooperatively()) return false;
    find_components();
    rank();
    if (!reach()) return false;
    if (!place()) return false;
    write(perm);
    return true;
  }

 private:
  using memory = cuda::pooled_memory;

  template <class T>
  memory array() const {
    return memory(nodes_ * sizeof(T), stream_);
  }

  // Of one thread for each node, or fewer.
  template <class... Parameters, class... Arguments>
  void launch(const char* name, void (*kernel)(Parameters...), unsigned threads, Arguments... arguments) const {
    cuda::launch(name, kernel, threads, stream_, arguments...);
  }

  search::graph edges() const { return {graph_.indptr, graph_.neighbours}; }
  unsigned* labels() const { return labels_.as<unsigned>(); }
  unsigned* depths() const { return by_node_.as<unsigned>(); }
  unsigned* parents() const { return by_node_.as<unsigned>(); }
  std::int32_t* queue() const { return queue_.as<std::int32_t>(); }

  // The lowest node of each component goes to the front of the queue.
  void find_components() {
    const std::int32_t* const indptr = graph_.indptr;
    const std::int32_t* const neighbours = graph_.neighbours;
    const memory frequent(sizeof(unsigned), stream_);
    launch("count_up_kernel", node_order::count_up_kernel, nodes_, nodes_, labels_.as<std::int32_t>());
    for (unsigned place = 0; place < components::first_neighbours; ++place) {
      launch("join_first_kernel", components::join_first_kernel, nodes_, indptr, neighbours, nodes_, place, labels());
      launch("flatten_kernel", components::flatten_kernel, nodes_, nodes_, labels());
    }
    launch("frequent_label_kernel", components::frequent_label_kernel, 1, nodes_, labels(), frequent.as<unsigned>());
    launch("join_rest_kernel", components::join_rest_kernel, nodes_, indptr, neighbours, nodes_,
           frequent.as<const unsigned>(), labels());
    launch("flatten_kernel", components::flatten_kernel, nodes_, nodes_, labels());
    const memory flags = array<std::uint8_t>(), count(sizeof(std::int32_t), stream_);
    launch("flag_roots_kernel", components::flag_roots_kernel, nodes_, nodes_, labels(), flags.as<std::uint8_t>());
    cuda::select_positions(flags.as<const std::uint8_t>(), queue(), count.as<std::int32_t>(), nodes_, stream_);
    num_components_ = static_cast<unsigned>(cuda::read_back(count.as<const std::int32_t>(), stream_));
  }

  // Nodes by (degree, index).
  void rank() {
    const memory numbers = array<std::int32_t>(), sorted = array<std::uint32_t>();
    launch("count_up_kernel", node_order::count_up_kernel, nodes_, nodes_, numbers.as<std::int32_t>());
    cuda::sort_pairs(graph_.degrees.as<const std::uint32_t>(), sorted.as<std::uint32_t>(),
                     numbers.as<const std::int32_t>(), node_of_rank_.as<std::int32_t>(), nodes_, cuda::bits_for(nodes_),
                     stream_);
    launch("invert_kernel", node_order::invert_kernel, nodes_, node_of_rank_.as<const std::int32_t>(), nodes_,
           ranks_.as<std::int32_t>());
  }

  // Depths from the lowest nodes, and from them the nodes to start from, which replace these in the queue.
  bool reach() {
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(depths(), 0xff, nodes_ * sizeof(unsigned), stream_));
    launch("start_depths_kernel", start_depths_kernel, num_components_, queue(), num_components_, depths());
    const memory found(search::max_levels * sizeof(unsigned), stream_);
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, search::max_levels * sizeof(unsigned), stream_));
    if (!search_all(search::reach_kernel, edges(), num_components_, queue(), depths(), found.as<unsigned>())) {
      return false;
    }
    const memory deepest = array<unsigned>(), lowest_ranks = array<unsigned>();
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(deepest.data(), 0, nodes_ * sizeof(unsigned), stream_));
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(lowest_ranks.data(), 0xff, nodes_ * sizeof(unsigned), stream_));
    launch("deepest_kernel", deepest_kernel, nodes_, labels(), depths(), nodes_, deepest.as<unsigned>());
    launch("lowest_rank_kernel", lowest_rank_kernel, nodes_, labels(), depths(), deepest.as<const unsigned>(),
           ranks_.as<const std::int32_t>(), nodes_, lowest_ranks.as<unsigned>());
    // From now on by_node_ holds parents.
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(parents(), 0xff, nodes_ * sizeof(unsigned), stream_));
    launch("start_places_kernel", start_places_kernel, num_components_, lowest_ranks.as<const unsigned>(),
           node_of_rank_.as<const std::int32_t>(), num_components_, queue(), parents());
    return true;
  }

  bool place() {
    const memory totals(2 * sizeof(unsigned) * num_blocks(search::cuthill_mckee_kernel), stream_);
    return search_all(search::cuthill_mckee_kernel, edges(), num_components_, ranks_.as<const std::int32_t>(),
                      node_of_rank_.as<const std::int32_t>(), queue(), parents(), totals.as<unsigned>());
  }

  // As many blocks as run at a time. Small graphs have few nodes a level: more blocks would only wait longer.
  template <class... Parameters>
  unsigned num_blocks(void (*kernel)(Parameters...)) const {
    constexpr unsigned nodes_of_block = 1 << 12;
    return std::clamp((nodes_ + nodes_of_block - 1) / nodes_of_block, 1u,
                      cuda::resident_blocks(kernel, search::block_threads));
  }

  // Runs one of the searches; returns whether it reached all nodes. It does not where it gave up, or if the pattern
  // was taken for symmetric and is not.
  template <class... Parameters, class... Arguments>
  bool search_all(void (*kernel)(Parameters...), Arguments... arguments) const {
    const memory state(sizeof(search::progress), stream_);
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(state.data(), 0, sizeof(search::progress), stream_));
    cuda::launch_cooperatively(kernel, num_blocks(kernel), search::block_threads, stream_, arguments...,
                               state.as<search::progress>());
    return cuda::read_back(state.as<const search::progress>(), stream_).reached == nodes_;
  }

  void write(std::int32_t* perm) const {
    const memory sorted = array<std::int32_t>();
    const std::int32_t* order = queue();
    if (num_components_ > 1) {
      const memory keys = array<std::uint32_t>(), sorted_keys = array<std::uint32_t>();
      launch("labels_kernel", labels_kernel, nodes_, order, labels(), nodes_, keys.as<std::uint32_t>());
      cuda::sort_pairs(keys.as<const std::uint32_t>(), sorted_keys.as<std::uint32_t>(), order,
                       sorted.as<std::int32_t>(), nodes_, cuda::bits_for(nodes_), stream_);
      order = sorted.as<const std::int32_t>();
    }
    const auto rows = static_cast<unsigned>(matrix_.num_rows());
    if (rows == nodes_) {
      launch("reverse_kernel", reverse_kernel, rows, order, nullptr, rows, perm);
      return;
    }
    const memory places = node_order::places_of_rows(order, nodes_, static_cast<std::int32_t>(rows), stream_);
    launch("reverse_kernel", reverse_kernel, rows, order, places.as<const std::int32_t>(), rows, perm);
  }

  const device_csr& matrix_;
  const device_pattern_graph& graph_;
  cudaStream_t stream_;
  unsigned nodes_;
  unsigned num_components_ = 0;
  memory labels_;  // the lowest node of each one's component
  memory ranks_;   // of the nodes by (degree, index)
  memory node_of_rank_;
  memory queue_;    // nodes by level
  memory by_node_;  // depths, then parents
};

}  // namespace

device_permutation rcm_permutation_on_gpu(const device_csr& matrix, const geometry&, const device_allocator& allocate) {
  return permutation_unless_given_up(matrix, allocate, [&](std::int32_t* perm) {
    const std::optional<device_pattern_graph> graph = device_pattern_graph::of(matrix);
    return graph && device_cuthill_mckee(matrix, *graph).compute(perm);
  });
}

}  // namespace warploom
