// The moves of nodes between clusters of communities.hpp: those of a batch decide at the same time, on what the batches
// before them left, and move afterwards. All sums are of integers, so that results do not depend on the order in which
// threads add. Volumes and weights stay below 2^31, as the number of edges does, so that gains fit into 64 bits.
//
// Device code only.
#pragma once

#include <cstdint>

#include "kernels/device/grid_barrier.cuh"
#include "kernels/device/warp.cuh"

namespace warploom::clusters {

constexpr unsigned threads_per_block = 256;
constexpr unsigned num_batches = 16;
constexpr std::int32_t none = -1;

// Every edge from either side. Nodes may be neighbours of themselves, which counts for nothing.
struct graph {
  const std::int32_t* indptr;
  const std::int32_t* neighbours;
  const std::int32_t* weights;  // null: 1 each
  const std::int32_t* volumes;  // of the nodes
  unsigned num_nodes;

  __device__ std::int32_t weight(unsigned j) const { return weights == nullptr ? 1 : weights[j]; }
};

struct clustering {
  std::int32_t* cluster_of;  // by node; clusters are named by nodes
  int2* clusters;            // by name: volume and number of nodes
  std::uint8_t* is_active;   // nodes with a neighbour that has moved since they last decided
  std::int32_t* target;      // by node: where it wants to be
};

// ---- Batches

// Nodes by how their neighbours are summed up. What has none never moves.
enum node_class : unsigned { small, medium, large, isolated, num_classes };

constexpr unsigned most_of_small = 32, most_of_medium = 512;

__host__ __device__ constexpr unsigned batch_of(std::uint32_t node) {
  node = (node ^ node >> 16) * 0x85ebca6bu;
  return (node ^ node >> 13) % num_batches;
}

// Every node alone; and the batch and class of each one, in `keys`. How many there are of each, and then the most
// neighbours that a node has, are added up in `counts`, which is 0 before.
__global__ void __launch_bounds__(threads_per_block)
    start_kernel(graph of, clustering found, std::uint32_t* __restrict__ keys, std::int32_t* __restrict__ nodes,
                 unsigned* __restrict__ counts) {
  constexpr unsigned num_counts = num_batches * num_classes;
  __shared__ unsigned own_counts[num_counts];
  if (threadIdx.x < num_counts) own_counts[threadIdx.x] = 0;
  __syncthreads();
  const unsigned node = blockIdx.x * threads_per_block + threadIdx.x;
  if (node < of.num_nodes) {
    found.cluster_of[node] = static_cast<std::int32_t>(node);
    found.clusters[node] = make_int2(of.volumes[node], 1);
    found.is_active[node] = 1;
    const auto degree = static_cast<unsigned>(of.indptr[node + 1] - of.indptr[node]);
    const node_class size = degree == 0                ? isolated
                            : degree <= most_of_small  ? small
                            : degree <= most_of_medium ? medium
                                                       : large;
    keys[node] = batch_of(node) * num_classes + size;
    nodes[node] = static_cast<std::int32_t>(node);
    atomicAdd(own_counts + keys[node], 1u);
    if (size == large) atomicMax(counts + num_counts, degree);
  }
  __syncthreads();
  if (threadIdx.x >= num_counts) return;
  if (const unsigned count = own_counts[threadIdx.x]; count > 0) atomicAdd(counts + threadIdx.x, count);
}

// ---- Deciding

struct offer {
  long long gain;
  std::int32_t cluster;

  // The larger gain; of equal ones the lower name.
  __device__ void take_better(long long other_gain, std::int32_t other) {
    if (other_gain > gain || (other_gain == gain && other < cluster)) {
      gain = other_gain;
      cluster = other;
    }
  }
};

__device__ __forceinline__ offer best_of_warp(offer mine) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const long long gain = cuda::exchange(mine.gain, offset);
    mine.take_better(gain, cuda::exchange(mine.cluster, offset));
  }
  return mine;
}

__device__ __forceinline__ void decided(const clustering& found, std::int32_t node, std::int32_t target) {
  found.is_active[node] = 0;
  found.target[node] = target;
}

// Whether nothing around a node has changed. `thread` 0 then says that it stays.
__device__ __forceinline__ bool stays_inactive(const clustering& found, std::int32_t node, unsigned thread) {
  if (found.is_active[node] != 0) return false;
  if (thread == 0) found.target[node] = found.cluster_of[node];
  return true;
}

// What a node gains by joining others.
class chooser {
 public:
  __device__ chooser(const graph& of, const clustering& found, long long total, std::int32_t node)
      : found_(found),
        total_(total),
        volume_(of.volumes[node]),
        own_(found.cluster_of[node]),
        own_cluster_(found.clusters[own_]) {}

  __device__ std::int32_t own() const { return own_; }

  // Of two nodes alone in their clusters, only the higher joins the other: they could change places for ever.
  __device__ void consider(std::int32_t cluster, std::int32_t weight, offer& best) const {
    const int2 of = found_.clusters[cluster];
    if (own_cluster_.y == 1 && cluster > own_ && of.y == 1) return;
    best.take_better(weight * total_ - volume_ * of.x, cluster);
  }

  // The own one among equals.
  __device__ std::int32_t choose(const offer& best, std::int32_t weight_to_own) const {
    const long long stays = weight_to_own * total_ - volume_ * (own_cluster_.x - volume_);
    return best.gain > stays ? best.cluster : own_;
  }

  __device__ static offer nothing() { return {-0x7fffffffffffffffll - 1, 0x7fffffff}; }

 private:
  const clustering& found_;
  long long total_, volume_;
  std::int32_t own_;
  int2 own_cluster_;
};

// A warp decides for a node of at most 32 neighbours.
__device__ __forceinline__ void decide_small(const graph& of, const clustering& found, long long total,
                                             std::int32_t node) {
  const unsigned lane = cuda::lane_id();
  if (stays_inactive(found, node, lane)) return;
  const chooser choosing(of, found, total, node);
  const unsigned j = static_cast<unsigned>(of.indptr[node]) + lane;
  std::int32_t cluster = none, weight = 0;
  if (j < static_cast<unsigned>(of.indptr[node + 1]) && of.neighbours[j] != node) {
    cluster = found.cluster_of[of.neighbours[j]];
    weight = of.weight(j);
  }
  const unsigned alike = cuda::lanes_alike(cluster);
  std::int32_t sum = 0;
  if (of.weights == nullptr) {
    sum = __popc(alike);
  } else {
    for (int other = 0; other < 32; ++other) {
      const std::int32_t its_weight = cuda::from_lane(weight, other);
      if (alike >> other & 1) sum += its_weight;
    }
  }
  const unsigned in_own = cuda::ballot(cluster == choosing.own());
  const std::int32_t sum_of_own = cuda::from_lane(sum, in_own == 0 ? 0 : __ffs(static_cast<int>(in_own)) - 1);
  offer best = chooser::nothing();
  if (cluster != none && cluster != choosing.own()) choosing.consider(cluster, sum, best);
  best = best_of_warp(best);
  if (lane == 0) decided(found, node, choosing.choose(best, in_own == 0 ? 0 : sum_of_own));
}

// Sums of weights by cluster: a hash table of a power of two of places, shared by threads.
struct weight_table {
  std::int32_t* clusters;
  std::int32_t* weights;
  unsigned mask;

  __device__ void add(std::int32_t cluster, std::int32_t weight) const {
    const std::uint32_t hash = static_cast<std::uint32_t>(cluster) * 0x9e3779b1u;
    unsigned place = (hash ^ hash >> 15) & mask;
    while (true) {
      const std::int32_t held = *const_cast<volatile std::int32_t*>(clusters + place);
      if (held == cluster) break;
      if (held == none) {
        const std::int32_t before = atomicCAS(clusters + place, none, cluster);
        if (before == none || before == cluster) break;
        continue;
      }
      place = (place + 1) & mask;
    }
    atomicAdd(weights + place, weight);
  }
};

// Twice as many places as neighbours, or more.
__host__ __device__ constexpr unsigned places_for(unsigned neighbours) {
  unsigned places = 64;
  while (places < 2 * neighbours) places *= 2;
  return places;
}

// What `threads` threads, a warp or a thread block, find of a node; `synchronize` lets each see what the others did.
template <class Synchronize>
__device__ __forceinline__ offer look_at_neighbours(const graph& of, const clustering& found, const chooser& choosing,
                                                    std::int32_t node, weight_table table, unsigned thread,
                                                    unsigned threads, std::int32_t& weight_to_own,
                                                    Synchronize synchronize) {
  const auto begin = static_cast<unsigned>(of.indptr[node]), end = static_cast<unsigned>(of.indptr[node + 1]);
  table.mask = places_for(end - begin) - 1;
  for (unsigned place = thread; place <= table.mask; place += threads) {
    table.clusters[place] = none;
    table.weights[place] = 0;
  }
  synchronize();
  for (unsigned j = begin + thread; j < end; j += threads) {
    const std::int32_t neighbour = of.neighbours[j];
    if (neighbour != node) table.add(found.cluster_of[neighbour], of.weight(j));
  }
  synchronize();
  offer best = chooser::nothing();
  weight_to_own = 0;
  for (unsigned place = thread; place <= table.mask; place += threads) {
    const std::int32_t cluster = *const_cast<volatile std::int32_t*>(table.clusters + place);
    if (cluster == none) continue;
    const std::int32_t weight = *const_cast<volatile std::int32_t*>(table.weights + place);
    if (cluster == choosing.own()) {
      weight_to_own = weight;
    } else {
      choosing.consider(cluster, weight, best);
    }
  }
  return best;
}

constexpr unsigned places_of_warp = places_for(most_of_medium);

// Room for a table of each warp of a thread block, or for one of all of them.
template <unsigned Threads, unsigned Places = Threads / 32 * places_of_warp>
struct shared_tables {
  std::int32_t numbers[2 * Places];
  offer best[Threads / 32];
  std::int32_t weights_to_own[Threads / 32];

  __device__ weight_table of_warp() {
    std::int32_t* const own = numbers + 2 * places_of_warp * (threadIdx.x / 32);
    return {own, own + places_of_warp, 0};
  }
};

// A warp decides, with a table of its own in shared memory.
__device__ __forceinline__ void decide_medium(const graph& of, const clustering& found, long long total,
                                              std::int32_t node, const weight_table& table) {
  const unsigned lane = cuda::lane_id();
  if (stays_inactive(found, node, lane)) return;
  const chooser choosing(of, found, total, node);
  std::int32_t weight_to_own = 0;
  offer best = look_at_neighbours(of, found, choosing, node, table, lane, 32, weight_to_own, [] { cuda::sync_warp(); });
  best = best_of_warp(best);
  weight_to_own = cuda::group_sum<32>(weight_to_own);
  if (lane == 0) decided(found, node, choosing.choose(best, weight_to_own));
  cuda::sync_warp();  // before the table is used again
}

// Tables in GPU memory, one for each thread block, for nodes with more neighbours than shared memory has room for.
struct global_tables {
  std::int32_t* numbers;
  unsigned places, count;

  __device__ weight_table of_block() const {
    std::int32_t* const own = numbers + std::size_t{2} * places * blockIdx.x;
    return {own, own + places, 0};
  }
};

// A thread block decides.
template <unsigned Threads, unsigned Places>
__device__ __forceinline__ void decide_large(const graph& of, const clustering& found, long long total,
                                             std::int32_t node, shared_tables<Threads, Places>& shared,
                                             const global_tables& tables) {
  if (stays_inactive(found, node, threadIdx.x)) return;  // the same for all threads: no other block changes it now
  const chooser choosing(of, found, total, node);
  const bool fits = places_for(static_cast<unsigned>(of.indptr[node + 1] - of.indptr[node])) <= Places;
  const weight_table table = fits ? weight_table{shared.numbers, shared.numbers + Places, 0} : tables.of_block();
  std::int32_t weight_to_own = 0;
  offer best = look_at_neighbours(of, found, choosing, node, table, threadIdx.x, Threads, weight_to_own,
                                  [] { __syncthreads(); });
  best = best_of_warp(best);
  weight_to_own = cuda::group_sum<32>(weight_to_own);
  if (cuda::lane_id() == 0) {
    shared.best[threadIdx.x / 32] = best;
    shared.weights_to_own[threadIdx.x / 32] = weight_to_own;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < Threads / 32; ++warp) {
      best.take_better(shared.best[warp].gain, shared.best[warp].cluster);
      weight_to_own += shared.weights_to_own[warp];
    }
    decided(found, node, choosing.choose(best, weight_to_own));
  }
  __syncthreads();
}

// ---- Moving: nodes go where they want to be, and all their neighbours have to decide again.

// Returns whether the node has gone elsewhere.
__device__ __forceinline__ bool move(const graph& of, const clustering& found, std::int32_t node) {
  const std::int32_t from = found.cluster_of[node], to = found.target[node];
  if (from == to) return false;
  found.cluster_of[node] = to;
  const std::int32_t volume = of.volumes[node];
  atomicAdd(&found.clusters[from].x, -volume);
  atomicAdd(&found.clusters[to].x, volume);
  atomicAdd(&found.clusters[from].y, -1);
  atomicAdd(&found.clusters[to].y, 1);
  return true;
}

__device__ __forceinline__ void wake_neighbours(const graph& of, const clustering& found, std::int32_t node,
                                                unsigned thread, unsigned threads) {
  const auto end = static_cast<unsigned>(of.indptr[node + 1]);
#pragma unroll 4
  for (unsigned j = static_cast<unsigned>(of.indptr[node]) + thread; j < end; j += threads) {
    if (of.neighbours[j] != node) found.is_active[of.neighbours[j]] = 1;
  }
}

// A warp moves a node for each lane, or none.
__device__ __forceinline__ void move_with_warp(const graph& of, const clustering& found, std::int32_t node,
                                               unsigned* moved) {
  unsigned moving = cuda::ballot(node != none && move(of, found, node));
  if (cuda::lane_id() == 0 && moving != 0) atomicAdd(moved, static_cast<unsigned>(__popc(moving)));
  for (; moving != 0; moving &= moving - 1) {
    const std::int32_t mover = cuda::from_lane(node, __ffs(static_cast<int>(moving)) - 1);
    wake_neighbours(of, found, mover, cuda::lane_id(), 32);
  }
}

// A thread block moves one.
__device__ __forceinline__ void move_with_block(const graph& of, const clustering& found, std::int32_t node,
                                                unsigned* moved) {
  const bool moving = found.cluster_of[node] != found.target[node];
  __syncthreads();
  if (!moving) return;
  if (threadIdx.x == 0) {
    move(of, found, node);
    atomicAdd(moved, 1u);
  }
  wake_neighbours(of, found, node, threadIdx.x, blockDim.x);
}

// ---- Kernels of one batch, for graphs of many nodes

constexpr unsigned medium_threads = 128, large_threads = 512, places_of_large = 4096;

__global__ void __launch_bounds__(threads_per_block)
    decide_small_kernel(graph of, clustering found, long long total, const std::int32_t* __restrict__ nodes,
                        unsigned count) {
  const unsigned i = blockIdx.x * (threads_per_block / 32) + threadIdx.x / 32;
  if (i < count) decide_small(of, found, total, nodes[i]);
}

__global__ void __launch_bounds__(medium_threads)
    decide_medium_kernel(graph of, clustering found, long long total, const std::int32_t* __restrict__ nodes,
                         unsigned count) {
  __shared__ shared_tables<medium_threads> shared;
  const unsigned i = blockIdx.x * (medium_threads / 32) + threadIdx.x / 32;
  if (i < count) decide_medium(of, found, total, nodes[i], shared.of_warp());
}

__global__ void __launch_bounds__(large_threads)
    decide_large_kernel(graph of, clustering found, long long total, const std::int32_t* __restrict__ nodes,
                        unsigned count, global_tables tables) {
  __shared__ shared_tables<large_threads, places_of_large> shared;
  for (unsigned i = blockIdx.x; i < count; i += gridDim.x) decide_large(of, found, total, nodes[i], shared, tables);
}

// A warp for 32 nodes.
__global__ void __launch_bounds__(threads_per_block)
    move_kernel(graph of, clustering found, const std::int32_t* __restrict__ nodes, unsigned count, unsigned* moved) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  move_with_warp(of, found, i < count ? nodes[i] : none, moved);
}

// A thread block for each node.
__global__ void __launch_bounds__(threads_per_block)
    move_large_kernel(graph of, clustering found, const std::int32_t* __restrict__ nodes, unsigned* moved) {
  move_with_block(of, found, nodes[blockIdx.x], moved);
}

// ---- All rounds in one kernel, for graphs of fewer nodes, where launches would take longer than the work

constexpr unsigned search_threads = 128;

// Where the nodes of each batch and class begin, in a list of all of them.
struct batch_list {
  unsigned begin[num_batches * num_classes + 1];
};

// Launched cooperatively. Ends after the first round in which fewer than a twentieth of the nodes move. `arrived` and
// the numbers of nodes that move in each round are 0 before.
__global__ void __launch_bounds__(search_threads)
    search_kernel(graph of, clustering found, long long total, const std::int32_t* __restrict__ nodes,
                  batch_list batches, global_tables tables, unsigned max_rounds, unsigned* arrived, unsigned* moved) {
  __shared__ shared_tables<search_threads> shared;
  const unsigned warp = (blockIdx.x * search_threads + threadIdx.x) / 32, warps = gridDim.x * (search_threads / 32);
  const unsigned with_table = min(gridDim.x, tables.count);
  unsigned awaited = 0;
  for (unsigned round = 0; round < max_rounds; ++round) {
    for (unsigned b = 0; b < num_batches; ++b) {
      const unsigned* const begin = batches.begin + b * num_classes;
      for (unsigned i = begin[small] + warp; i < begin[medium]; i += warps) decide_small(of, found, total, nodes[i]);
      for (unsigned i = begin[medium] + warp; i < begin[large]; i += warps) {
        decide_medium(of, found, total, nodes[i], shared.of_warp());
      }
      __syncthreads();
      const unsigned first_large = blockIdx.x < with_table ? begin[large] + blockIdx.x : begin[isolated];
      for (unsigned i = first_large; i < begin[isolated]; i += with_table) {
        decide_large(of, found, total, nodes[i], shared, tables);
      }
      cuda::wait_for_grid(arrived, awaited);
      for (unsigned first = begin[small] + 32 * warp; first < begin[large]; first += 32 * warps) {
        const unsigned i = first + cuda::lane_id();
        move_with_warp(of, found, i < begin[large] ? nodes[i] : none, moved + round);
      }
      for (unsigned i = begin[large] + blockIdx.x; i < begin[isolated]; i += gridDim.x) {
        move_with_block(of, found, nodes[i], moved + round);
      }
      cuda::wait_for_grid(arrived, awaited);
    }
    if (std::uint64_t{20} * __ldcg(moved + round) < of.num_nodes) return;
  }
}

}  // namespace warploom::clusters
