#include <algorithm>
#include <utility>

#include "device/algorithms.hpp"
#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "device/workspace.hpp"
#include "kernels/device/warp.cuh"
#include "permutations/device_load_orders.hpp"
#include "permutations/device_permutation.hpp"
#include "warploom/permutation.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;
constexpr int max_warps = 32;  // of a thread block: a lane each

__global__ void __launch_bounds__(threads_per_block)
    warp_loads_kernel(const std::int32_t* __restrict__ indptr, unsigned num_rows, unsigned threads,
                      std::uint32_t* __restrict__ loads, std::int32_t* __restrict__ rows) {
  const unsigned row = blockIdx.x * threads_per_block + threadIdx.x;
  if (row >= num_rows) return;
  const auto length = static_cast<unsigned>(indptr[row + 1] - indptr[row]);
  loads[row] = length / threads + (length % threads != 0);
  rows[row] = static_cast<std::int32_t>(row);
}

// Rows by decreasing warp load; of equal load in their original order.
struct sorted_rows {
  sorted_rows(const device_csr& matrix, const geometry& shape, std::int32_t* rows)
      : loads(matrix.num_rows() * sizeof(std::uint32_t), matrix.stream()) {
    const std::int64_t m = matrix.num_rows();
    const cudaStream_t stream = matrix.stream();
    const cuda::pooled_memory unsorted(m * sizeof(std::uint32_t), stream), indices(m * sizeof(std::int32_t), stream);
    warp_loads_kernel<<<cuda::blocks_for(m), threads_per_block, 0, stream>>>(
        matrix.indptr32(), static_cast<unsigned>(m), static_cast<unsigned>(shape.threads), unsorted.as<std::uint32_t>(),
        indices.as<std::int32_t>());
    cuda::check_launch("warp_loads_kernel");
    const std::int64_t most = (matrix.summary().longest_row + shape.threads - 1) / shape.threads;
    cuda::sort_pairs_descending(unsorted.as<const std::uint32_t>(), loads.as<std::uint32_t>(),
                                indices.as<const std::int32_t>(), rows, m,
                                cuda::bits_for(static_cast<std::uint64_t>(most)), stream);
  }

  cuda::pooled_memory loads;
};

__global__ void __launch_bounds__(threads_per_block)
    flip_kernel(const std::int32_t* __restrict__ rows, std::int64_t num_rows, std::int64_t warps,
                std::int32_t* __restrict__ perm) {
  const std::int64_t p = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (p >= num_rows) return;
  const std::int64_t group = p / warps, first = group * warps, last = min(num_rows, first + warps) - 1;
  perm[group % 2 == 0 ? p : first + last - p] = rows[p];
}

// ---- LPT
//
// Greedy assignment looks sequential: each row goes to the warp with the smallest (load, index) that has a free
// position. But rows come by decreasing load, so they come in runs of equal load L. Within a run, the warps whose
// (load, index) is below that of the least one after it gets a row, (least + L, index), are served in turn: after each
// round all of them have L more, in the same order. That goes on until a warp outside comes next, one of them is full,
// or the run ends; so rows are assigned many at a time.

struct turn {
  int warps;           // that are served in turn
  std::int64_t total;  // rows that are assigned
};

constexpr int lpt_threads = 1024;

__device__ bool comes_before(std::int64_t load_a, int a, std::int64_t load_b, int b) {
  return load_a < load_b || (load_a == load_b && a < b);
}

// The end of the run of equal loads that starts at `first`; called by a warp.
__device__ std::int64_t end_of_run(const std::uint32_t* loads, std::int64_t first, std::int64_t num_rows, int lane) {
  const std::uint32_t load = loads[first];
  std::int64_t low = first, high = num_rows;  // loads[low] == load, and loads[high] is not
  while (high - low > 1) {
    const std::int64_t step = (high - low + 31) / 32;
    const std::int64_t at = low + step * (lane + 1);
    const unsigned equal = cuda::ballot(at < high && loads[at] == load);
    const int passed = __popc(equal);
    high = min(high, low + step * (passed + 1));
    low += step * passed;
  }
  return high;
}

__global__ void __launch_bounds__(lpt_threads)
    lpt_kernel(const std::uint32_t* __restrict__ loads, const std::int32_t* __restrict__ rows, std::int64_t num_rows,
               int num_warps, std::int32_t* __restrict__ perm) {
  __shared__ turn now;
  __shared__ std::int64_t positions[max_warps];  // the first free one of each warp that is served, in turn

  const int lane = static_cast<int>(threadIdx.x % 32);
  const bool decides = threadIdx.x < 32;
  // Of the lane's warp.
  std::int64_t load = 0;
  std::int64_t position = lane;
  const bool exists = lane < num_warps;

  std::int64_t run_end = 0;
  for (std::int64_t i = 0; i < num_rows;) {
    if (decides) {
      if (i >= run_end) run_end = end_of_run(loads, i, num_rows, lane);
      const auto length = static_cast<std::int64_t>(loads[i]);
      const bool free = exists && position < num_rows;
      const unsigned all_free = cuda::ballot(free);
      int rank = 0;
      for (int other = 0; other < 32; ++other) {
        const std::int64_t its_load = cuda::from_lane(load, other);
        if ((all_free >> other & 1u) != 0 && comes_before(its_load, other, load, lane)) ++rank;
      }
      const auto lane_of_rank = [&](int wanted) { return __ffs(cuda::ballot(free && rank == wanted)) - 1; };
      const int first = lane_of_rank(0);
      const std::int64_t least = cuda::from_lane(load, first);
      // Empty rows change no load: all go to one warp.
      const bool serves = free && (length == 0 ? rank == 0 : comes_before(load, lane, least + length, first));
      const int count = __popc(cuda::ballot(serves));
      std::int64_t rounds = serves ? (num_rows - position + num_warps - 1) / num_warps : num_rows;
      if (length > 0 && count < __popc(all_free)) {
        const int next = lane_of_rank(count), last = lane_of_rank(count - 1);
        const std::int64_t next_load = cuda::from_lane(load, next), last_load = cuda::from_lane(load, last);
        rounds = min(rounds, (next_load - last_load - (last < next ? 0 : 1)) / length + 1);
      }
      for (int offset = 16; offset > 0; offset /= 2) {
        rounds = min(rounds, cuda::exchange(rounds, offset));
      }
      rounds = min(rounds, (run_end - i) / count);
      const std::int64_t total = rounds > 0 ? rounds * count : run_end - i;
      if (serves) {
        positions[rank] = position;
        const std::int64_t taken = rounds > 0 ? rounds : (rank < total ? 1 : 0);
        load += taken * length;
        position += taken * num_warps;
      }
      if (lane == 0) now = {count, total};
    }
    __syncthreads();
    const turn assigned = now;
    for (std::int64_t t = threadIdx.x; t < assigned.total; t += lpt_threads) {
      perm[positions[t % assigned.warps] + t / assigned.warps * num_warps] = rows[i + t];
    }
    i += assigned.total;
    __syncthreads();
  }
}

}  // namespace

device_permutation plain_permutation_on_gpu(const device_csr& matrix, const geometry& shape,
                                            const device_allocator& allocate) {
  std::shared_ptr<std::int32_t> perm = make_permutation(matrix, allocate);
  if (matrix.num_rows() > 0) sorted_rows(matrix, shape, perm.get());
  return perm;
}

device_permutation flipped_permutation_on_gpu(const device_csr& matrix, const geometry& shape,
                                              const device_allocator& allocate) {
  std::shared_ptr<std::int32_t> perm = make_permutation(matrix, allocate);
  const std::int64_t m = matrix.num_rows();
  if (m == 0) return perm;
  const cuda::pooled_memory rows(m * sizeof(std::int32_t), matrix.stream());
  sorted_rows(matrix, shape, rows.as<std::int32_t>());
  flip_kernel<<<cuda::blocks_for(m), threads_per_block, 0, matrix.stream()>>>(rows.as<const std::int32_t>(), m,
                                                                              shape.warps, perm.get());
  cuda::check_launch("flip_kernel");
  return perm;
}

device_permutation lpt_permutation_on_gpu(const device_csr& matrix, const geometry& shape,
                                          const device_allocator& allocate) {
  if (shape.warps > max_warps) {
    throw error(error_kind::parameter, "warps", -1, "lpt is computed on a GPU for at most 32 warps");
  }
  std::shared_ptr<std::int32_t> perm = make_permutation(matrix, allocate);
  const std::int64_t m = matrix.num_rows();
  if (m == 0) return perm;
  const cuda::pooled_memory rows(m * sizeof(std::int32_t), matrix.stream());
  const sorted_rows sorted(matrix, shape, rows.as<std::int32_t>());
  lpt_kernel<<<1, lpt_threads, 0, matrix.stream()>>>(sorted.loads.as<const std::uint32_t>(),
                                                     rows.as<const std::int32_t>(), m, shape.warps, perm.get());
  cuda::check_launch("lpt_kernel");
  return perm;
}

}  // namespace warploom
