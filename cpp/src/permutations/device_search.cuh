// Breadth-first searches of a graph from one node of every component at the same time, each by one kernel whose thread
// blocks wait for each other after every level: a level costs a few microseconds, where launches would cost ten times
// that. `reach_kernel` finds the levels; `cuthill_mckee_kernel` puts the nodes of each level in their order too.
//
// Launched cooperatively, with block_threads threads a block and at most as many blocks as run at a time.
#pragma once

#include <cstdint>

#include "kernels/device/grid_barrier.cuh"
#include "kernels/device/warp.cuh"

namespace warploom::search {

constexpr unsigned block_warps = 32;
constexpr unsigned block_threads = 32 * block_warps;
constexpr unsigned long_list = 512;  // neighbours from which on a whole thread block reads them
constexpr unsigned unreached = ~0u;

// A search gives up in whose first `patience` levels there are fewer than `narrow` nodes a level, or that has
// `max_levels`: the host is faster then.
constexpr unsigned max_levels = 1 << 14, patience = 1 << 8, narrow = 32;

struct graph {
  const std::int32_t* __restrict__ indptr;
  const std::int32_t* __restrict__ neighbours;
};

struct progress {
  unsigned arrived;  // thread blocks at the barriers so far
  unsigned reached;  // nodes
  unsigned levels;
};

// Calls visit(neighbour) for the places begin + first, begin + first + step, ... before `end`.
template <class Visit>
__device__ __forceinline__ void for_each_neighbour(const graph& of, unsigned begin, unsigned end, unsigned first,
                                                   unsigned step, Visit&& visit) {
#pragma unroll 4
  for (unsigned j = begin + first; j < end; j += step) visit(__ldg(of.neighbours + j));
}

// Long lists of neighbours that warps leave to their thread block, by their nodes' places in the queue.
struct long_lists {
  static constexpr unsigned capacity = 256;

  unsigned places[capacity];
  unsigned count;

  // Called by a whole warp; returns whether there was room.
  __device__ bool leave(unsigned place) {
    unsigned at = 0;
    if (cuda::lane_id() == 0) {
      at = atomicAdd(&count, 1u);
      if (at < capacity) places[at] = place;
    }
    return cuda::from_lane(at, 0) < capacity;
  }
};

// Calls visit(neighbour, place) for all neighbours of the nodes at the places first, first + step, ... before `end` of
// the queue, of which each warp has its own first place. Called by whole thread blocks.
template <class Visit>
__device__ __forceinline__ void for_each_neighbour_of_places(const graph& of, const std::int32_t* queue, unsigned first,
                                                             unsigned end, unsigned step, long_lists& left,
                                                             Visit&& visit) {
  if (threadIdx.x == 0) left.count = 0;
  __syncthreads();
  unsigned begin_of = 0, end_of = 0;
  const auto look_up = [&](unsigned place) {
    if (place >= end) return;
    const std::int32_t node = __ldcg(queue + place);
    begin_of = __ldg(of.indptr + node);
    end_of = __ldg(of.indptr + node + 1);
  };
  look_up(first);
  for (unsigned place = first; place < end; place += step) {
    const unsigned from = begin_of, to = end_of;
    look_up(place + step);  // while the neighbours of this one are on their way
    if (to - from > long_list && left.leave(place)) continue;
    for_each_neighbour(of, from, to, cuda::lane_id(), 32, [&](std::int32_t other) { visit(other, place); });
  }
  __syncthreads();
  const unsigned lists = min(left.count, long_lists::capacity);
  for (unsigned i = 0; i < lists; ++i) {
    const std::int32_t node = __ldcg(queue + left.places[i]);
    for_each_neighbour(of, __ldg(of.indptr + node), __ldg(of.indptr + node + 1), threadIdx.x, block_threads,
                       [&](std::int32_t other) { visit(other, left.places[i]); });
  }
}

// ---- Levels

// `queue` begins with the nodes to start from, whose depths are 0; all others are unreached. found[max_levels] is 0.
// The nodes of a level come in any order.
__global__ void __launch_bounds__(block_threads, cuda::blocks_with_registers(block_threads, 2))
    reach_kernel(graph of, unsigned num_starts, std::int32_t* __restrict__ queue, unsigned* __restrict__ depths,
                 unsigned* __restrict__ found, progress* __restrict__ state) {
  constexpr unsigned capacity = 2048;
  __shared__ std::int32_t buffer[capacity];  // what this block found, to count it once
  __shared__ unsigned buffered, first;
  __shared__ long_lists left;

  const unsigned warp = threadIdx.x / 32;
  unsigned awaited = 0, begin = 0, end = num_starts, depth = 0;
  while (begin < end) {
    if (depth == max_levels || (depth >= patience && end < narrow * depth)) break;
    if (threadIdx.x == 0) buffered = 0;
    for_each_neighbour_of_places(of, queue, begin + warp * gridDim.x + blockIdx.x, end, block_warps * gridDim.x, left,
                                 [&](std::int32_t node, unsigned) {
                                   if (__ldcg(depths + node) != unreached) return;
                                   if (atomicCAS(depths + node, unreached, depth + 1) != unreached) return;
                                   const unsigned at = atomicAdd(&buffered, 1u);
                                   if (at < capacity) {
                                     buffer[at] = node;
                                   } else {
                                     queue[end + atomicAdd(found + depth, 1u)] = node;
                                   }
                                 });
    __syncthreads();
    const unsigned count = min(buffered, capacity);
    if (threadIdx.x == 0 && count > 0) first = end + atomicAdd(found + depth, count);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < count; i += block_threads) queue[first + i] = buffer[i];
    cuda::wait_for_grid(&state->arrived, awaited);
    begin = end;
    end += __ldcg(found + depth);
    ++depth;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    state->reached = end;
    state->levels = depth;
  }
}

// ---- Places

// How many of the numbers of the other lanes are less.
__device__ __forceinline__ unsigned rank_among_lanes(unsigned number, bool counts) {
  unsigned rank = 0;
  for (unsigned others = cuda::ballot(counts); others != 0; others &= others - 1) {
    if (cuda::from_lane(number, __ffs(others) - 1) < number) ++rank;
  }
  return rank;
}

// Sorts a list of any size by the bitonic merge sort that only ever moves the smaller number to the front, so that
// numbers behind the end can be left out. Called by a whole thread block.
__device__ inline void sort_by_block(std::int32_t* list, unsigned size) {
  const auto order = [&](std::uint64_t low, std::uint64_t high) {
    if (high >= size) return;
    const std::int32_t a = list[low], b = list[high];
    if (b < a) {
      list[low] = b;
      list[high] = a;
    }
  };
  for (int log_half = 0; (std::uint64_t{1} << log_half) < size; ++log_half) {
    const std::uint64_t half = std::uint64_t{1} << log_half;
    const std::uint64_t pairs = (size + 2 * half - 1) / (2 * half) * half;
    for (std::uint64_t t = threadIdx.x; t < pairs; t += block_threads) {
      const std::uint64_t start = t >> log_half << (log_half + 1), at = t & (half - 1);
      order(start + at, start + 2 * half - 1 - at);
    }
    __syncthreads();
    for (int log_distance = log_half - 1; log_distance >= 0; --log_distance) {
      const std::uint64_t distance = std::uint64_t{1} << log_distance;
      for (std::uint64_t t = threadIdx.x; t < pairs; t += block_threads) {
        const std::uint64_t low = (t >> log_distance << (log_distance + 1)) + (t & (distance - 1));
        order(low, low + distance);
      }
      __syncthreads();
    }
  }
}

// Of the nodes that one warp places.
struct parent_of_block {
  unsigned begin, end;  // its neighbours
  unsigned children;
  unsigned first;  // place of the first child, from the first of the block on
  bool is_long;
  bool sorts;  // its children are sorted by the block
};

// Puts the nodes in the order of Cuthill and McKee, all components side by side: `queue`, which begins with one node to
// start from for each, holds first these, then their children, then the children of those. A node's parent is the
// first of its neighbours in the queue, and siblings are ordered by rank. parents[node] is the place of the parent plus
// 1; 0 for the nodes to start from, and unreached for all others before. totals: two for each thread block.
//
// For the nodes of a level, as many at a time as there are warps: each counts its children, which are the neighbours
// whose parent it is; the thread blocks exchange their sums; the children are placed, and they claim their own
// neighbours at once: atomicMin leaves each to the first who does, and those of earlier levels come first anyway.
__global__ void __launch_bounds__(block_threads, 1)
    cuthill_mckee_kernel(graph of, unsigned num_starts, const std::int32_t* __restrict__ ranks,
                         const std::int32_t* __restrict__ node_of_rank, std::int32_t* __restrict__ queue,
                         unsigned* __restrict__ parents, unsigned* __restrict__ totals, progress* __restrict__ state) {
  __shared__ parent_of_block own[block_warps];
  __shared__ unsigned before, all, most, slots;
  __shared__ long_lists left;

  const unsigned lane = cuda::lane_id(), warp = threadIdx.x / 32, blocks = gridDim.x;
  unsigned awaited = 0, parity = 0, levels = 0;
  const auto claim = [&](unsigned first, unsigned end, unsigned step) {
    for_each_neighbour_of_places(of, queue, first, end, step, left,
                                 [&](std::int32_t node, unsigned place) { atomicMin(parents + node, place + 1); });
  };
  const unsigned of_grid = warp * blocks + blockIdx.x;  // this warp's number in the grid

  claim(of_grid, num_starts, block_warps * blocks);
  cuda::wait_for_grid(&state->arrived, awaited);
  unsigned begin = 0, end = num_starts;
  while (begin < end) {
    unsigned next = end;  // the first free place
    for (unsigned piece = begin; piece < end; piece += blocks * block_warps) {
      // Consecutive places for each block, one for each warp.
      const unsigned places = min(end - piece, blocks * block_warps);
      const unsigned per_block = (places + blocks - 1) / blocks;
      const unsigned number = blockIdx.x * per_block + warp;
      const bool has_place = warp < per_block && number < places;
      const unsigned place = piece + number;

      parent_of_block mine{0, 0, 0, 0, false, false};
      unsigned found = 0;       // by this lane
      std::int32_t child = -1;  // the last one
      if (has_place) {
        const std::int32_t node = __ldcg(queue + place);
        mine.begin = __ldg(of.indptr + node);
        mine.end = __ldg(of.indptr + node + 1);
        mine.is_long = mine.end - mine.begin > long_list;
        if (!mine.is_long) {
          for_each_neighbour(of, mine.begin, mine.end, lane, 32, [&](std::int32_t other) {
            if (__ldcg(parents + other) != place + 1) return;
            ++found;
            child = other;
          });
        }
      }
      const std::int32_t rank = found > 0 ? __ldg(ranks + child) : 0;
      mine.children = cuda::group_sum<32>(found);
      const bool in_lanes = !cuda::any_lane(found > 1);  // every child is in a lane
      mine.sorts = mine.is_long || mine.children > 32;
      if (lane == 0) own[warp] = mine;
      if (__syncthreads_or(mine.is_long)) {
        for (unsigned w = 0; w < block_warps; ++w) {
          if (!own[w].is_long) continue;
          const unsigned claimed = piece + blockIdx.x * per_block + w + 1;
          unsigned count = 0;
          for_each_neighbour(of, own[w].begin, own[w].end, threadIdx.x, block_threads, [&](std::int32_t other) {
            if (__ldcg(parents + other) == claimed) ++count;
          });
          count = cuda::group_sum<32>(count);
          if (lane == 0 && count > 0) atomicAdd(&own[w].children, count);
        }
        __syncthreads();
      }
      if (warp == 0) {
        const unsigned children = own[lane].children;
        unsigned sum = children;
        for (int distance = 1; distance < 32; distance *= 2) {
          const unsigned earlier = cuda::from_lane_before(sum, distance);
          if (lane >= static_cast<unsigned>(distance)) sum += earlier;
        }
        own[lane].first = sum - children;
        if (lane == 31) totals[parity * blocks + blockIdx.x] = sum;
      }
      cuda::wait_for_grid(&state->arrived, awaited);
      if (warp == 0) {
        unsigned sum_before = 0, sum = 0, largest = 0;
        for (unsigned b = lane; b < blocks; b += 32) {
          const unsigned total = __ldcg(totals + parity * blocks + b);
          if (b < blockIdx.x) sum_before += total;
          sum += total;
          largest = max(largest, total);
        }
        sum_before = cuda::group_sum<32>(sum_before);
        sum = cuda::group_sum<32>(sum);
        largest = cuda::warp_maximum<unsigned>(largest);
        if (lane == 0) {
          before = sum_before;
          all = sum;
          most = largest;
        }
      }
      parity ^= 1;
      __syncthreads();
      const unsigned first_of_block = next + before;
      const unsigned of_block = own[block_warps - 1].first + own[block_warps - 1].children;

      mine.children = own[warp].children;
      const unsigned first = first_of_block + own[warp].first;
      if (mine.children > 0 && !mine.is_long) {
        if (in_lanes) {
          const unsigned rank_here = rank_among_lanes(static_cast<unsigned>(rank), found > 0);
          if (found > 0) queue[first + rank_here] = child;
        } else {
          // Ranks in any order, which are then sorted: here if there is one for a lane, and else by the block.
          unsigned at = found;
          for (int distance = 1; distance < 32; distance *= 2) {
            const unsigned earlier = cuda::from_lane_before(at, distance);
            if (lane >= static_cast<unsigned>(distance)) at += earlier;
          }
          at += first - found;
          for_each_neighbour(of, mine.begin, mine.end, lane, 32, [&](std::int32_t other) {
            if (__ldcg(parents + other) == place + 1) queue[at++] = __ldg(ranks + other);
          });
          cuda::sync_warp();
          if (!mine.sorts) {
            const bool holds = lane < mine.children;
            const std::int32_t its_rank = holds ? queue[first + lane] : 0;
            const unsigned rank_here = rank_among_lanes(static_cast<unsigned>(its_rank), holds);
            cuda::sync_warp();
            if (holds) queue[first + rank_here] = __ldg(node_of_rank + its_rank);
          }
        }
      }
      if (__syncthreads_or(mine.sorts && mine.children > 0)) {
        for (unsigned w = 0; w < block_warps; ++w) {
          if (!own[w].sorts || own[w].children == 0) continue;
          std::int32_t* const list = queue + first_of_block + own[w].first;
          if (own[w].is_long) {
            const unsigned claimed = piece + blockIdx.x * per_block + w + 1;
            if (threadIdx.x == 0) slots = 0;
            __syncthreads();
            for (unsigned j = own[w].begin; j < own[w].end; j += block_threads) {
              const unsigned at = j + threadIdx.x;
              const std::int32_t other = at < own[w].end ? __ldg(of.neighbours + at) : -1;
              const bool is_child = other >= 0 && __ldcg(parents + other) == claimed;
              const unsigned children = cuda::ballot(is_child);
              if (children == 0) continue;
              unsigned slot = 0;
              if (lane == 0) slot = atomicAdd(&slots, static_cast<unsigned>(__popc(children)));
              slot = cuda::from_lane(slot, 0) + __popc(children & ((1u << lane) - 1));
              if (is_child) list[slot] = __ldg(ranks + other);
            }
            __syncthreads();
          }
          sort_by_block(list, own[w].children);
          for (unsigned i = threadIdx.x; i < own[w].children; i += block_threads)
            list[i] = __ldg(node_of_rank + list[i]);
        }
        __syncthreads();
      }

      if (most > 8 * block_warps) {  // too many for one block: all share the children
        cuda::wait_for_grid(&state->arrived, awaited);
        claim(next + of_grid, next + all, block_warps * blocks);
      } else {
        claim(first_of_block + warp, first_of_block + of_block, block_warps);
      }
      next += all;
      __syncthreads();
    }
    cuda::wait_for_grid(&state->arrived, awaited);
    begin = end;
    end = next;
    ++levels;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    state->reached = end;
    state->levels = levels;
  }
}

}  // namespace warploom::search
