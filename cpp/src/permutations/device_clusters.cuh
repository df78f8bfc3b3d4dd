// The moves of nodes between clusters of communities.hpp: those of a batch decide at the same time, on what the batches
// before them left, and move afterwards. All sums are of integers, so that results do not depend on the order in which
// threads add. Volumes and weights stay below 2^31, as the number of edges does, so that gains fit into 64 bits.
//
// Device code only.
#pragma once

#include <cstdint>

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
  unsigned* moved;           // how many have moved in this round
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

// A warp for each node of at most 32 neighbours.
__global__ void __launch_bounds__(threads_per_block)
    decide_small_kernel(graph of, clustering found, long long total, const std::int32_t* __restrict__ nodes,
                        unsigned count) {
  const unsigned i = (blockIdx.x * threads_per_block + threadIdx.x) / 32, lane = cuda::lane_id();
  if (i >= count) return;
  const std::int32_t node = nodes[i];
  if (found.is_active[node] == 0) {
    if (lane == 0) found.target[node] = found.cluster_of[node];
    return;
  }
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
  const std::int32_t sum_of_own = cuda::from_lane(sum, in_own == 0 ? 0 : __ffs(in_own) - 1);
  offer best = chooser::nothing();
  if (cluster != none && cluster != choosing.own()) choosing.consider(cluster, sum, best);
  best = best_of_warp(best);
  if (lane != 0) return;
  found.is_active[node] = 0;
  found.target[node] = choosing.choose(best, in_own == 0 ? 0 : sum_of_own);
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

constexpr unsigned medium_threads = 128;

// A warp for each node, with a table in shared memory.
__global__ void __launch_bounds__(medium_threads)
    decide_medium_kernel(graph of, clustering found, long long total, const std::int32_t* __restrict__ nodes,
                         unsigned count) {
  constexpr unsigned places = places_for(most_of_medium);
  __shared__ std::int32_t tables[medium_threads / 32][2][places];
  const unsigned i = (blockIdx.x * medium_threads + threadIdx.x) / 32, lane = cuda::lane_id();
  if (i >= count) return;
  const std::int32_t node = nodes[i];
  if (found.is_active[node] == 0) {
    if (lane == 0) found.target[node] = found.cluster_of[node];
    return;
  }
  const chooser choosing(of, found, total, node);
  auto& own = tables[threadIdx.x / 32];
  std::int32_t weight_to_own = 0;
  offer best = look_at_neighbours(of, found, choosing, node, {own[0], own[1], 0}, lane, 32, weight_to_own,
                                  [] { cuda::sync_warp(); });
  best = best_of_warp(best);
  weight_to_own = cuda::group_sum<32>(weight_to_own);
  if (lane != 0) return;
  found.is_active[node] = 0;
  found.target[node] = choosing.choose(best, weight_to_own);
}

constexpr unsigned large_threads = 512;

// A thread block for each node, one after the other, with a table of 2 * `places` numbers in `tables`.
__global__ void __launch_bounds__(large_threads)
    decide_large_kernel(graph of, clustering found, long long total, const std::int32_t* __restrict__ nodes,
                        unsigned count, std::int32_t* tables, unsigned places) {
  constexpr unsigned warps = large_threads / 32;
  __shared__ offer best_of[warps];
  __shared__ std::int32_t weights_to_own[warps];
  std::int32_t* const own = tables + std::size_t{2} * places * blockIdx.x;
  for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
    const std::int32_t node = nodes[i];
    if (found.is_active[node] == 0) {  // the same for all threads: only this block changes it
      if (threadIdx.x == 0) found.target[node] = found.cluster_of[node];
      continue;
    }
    const chooser choosing(of, found, total, node);
    std::int32_t weight_to_own = 0;
    offer best = look_at_neighbours(of, found, choosing, node, {own, own + places, 0}, threadIdx.x, large_threads,
                                    weight_to_own, [] { __syncthreads(); });
    best = best_of_warp(best);
    weight_to_own = cuda::group_sum<32>(weight_to_own);
    if (cuda::lane_id() == 0) {
      best_of[threadIdx.x / 32] = best;
      weights_to_own[threadIdx.x / 32] = weight_to_own;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (unsigned warp = 1; warp < warps; ++warp) {
        best.take_better(best_of[warp].gain, best_of[warp].cluster);
        weight_to_own += weights_to_own[warp];
      }
      found.is_active[node] = 0;
      found.target[node] = choosing.choose(best, weight_to_own);
    }
    __syncthreads();
  }
}

// ---- Moving

// Nodes go where they want to be, and all their neighbours have to decide again. A warp for 32 nodes.
__global__ void __launch_bounds__(threads_per_block)
    move_kernel(graph of, clustering found, const std::int32_t* __restrict__ nodes, unsigned count) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x, lane = cuda::lane_id();
  std::int32_t node = none;
  unsigned begin = 0, end = 0;
  if (i < count) {
    node = nodes[i];
    const std::int32_t from = found.cluster_of[node], to = found.target[node];
    if (from != to) {
      found.cluster_of[node] = to;
      const std::int32_t volume = of.volumes[node];
      atomicAdd(&found.clusters[from].x, -volume);
      atomicAdd(&found.clusters[to].x, volume);
      atomicAdd(&found.clusters[from].y, -1);
      atomicAdd(&found.clusters[to].y, 1);
      begin = static_cast<unsigned>(of.indptr[node]);
      end = static_cast<unsigned>(of.indptr[node + 1]);
    }
  }
  unsigned moving = cuda::ballot(begin < end);  // whoever moves has neighbours
  if (lane == 0 && moving != 0) atomicAdd(found.moved, static_cast<unsigned>(__popc(moving)));
  for (; moving != 0; moving &= moving - 1) {
    const int which = __ffs(static_cast<int>(moving)) - 1;
    const std::int32_t mover = cuda::from_lane(node, which);
    const unsigned last = cuda::from_lane(end, which);
    for (unsigned j = cuda::from_lane(begin, which) + lane; j < last; j += 32) {
      if (of.neighbours[j] != mover) found.is_active[of.neighbours[j]] = 1;
    }
  }
}

}  // namespace warploom::clusters
