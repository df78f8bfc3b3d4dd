// SpMV on CSR with hubs. A grid that is resident at once: each thread block copies x at the hubs into its shared
// memory, then each of its warps sums a chunk of neighbouring tiles. A lane has four places of a tile; the lanes of a
// row add up by a segmented scan, and a row goes on from tile to tile in a register. Three tiles are under way in a
// warp: one is loaded, one waits for its gathers, one is summed. While hubs are copied, the first tiles of each chunk
// come from memory into the L2.
//
// Only a row that goes on from one chunk to the next needs other warps: each chunk leaves a partial sum, and the last
// to arrive adds them in the order of the chunks. One launch; no thread block waits for another.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/device_csr.hpp"
#include "kernels/description.hpp"
#include "kernels/device/async_copy.cuh"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/hub_csr/device_hub_csr.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

constexpr int places_per_lane = hub_tile / 32;
constexpr int prefetched_tiles = 8;

// A row that several chunks have parts of: those from `first_chunk` on.
struct alignas(16) cut_row {
  std::int32_t row;
  std::int32_t first_chunk;
  std::int32_t num_chunks;
  std::int32_t first_partial;
};

// Neighbouring tiles, and the cut rows that go on from the chunk before and into the next; -1 where there is none. A
// row that does both is the first.
struct alignas(16) tile_chunk {
  std::int32_t first_tile;
  std::int32_t end_tile;
  std::int32_t before;
  std::int32_t after;
};

template <class Value>
struct hub_view {
  using sum_type = cuda::sum_type_t<Value>;
  unsigned num_hubs;
  unsigned num_chunks;
  unsigned num_empty_rows;
  const std::int32_t* hubs;
  const std::uint32_t* lanes;
  const std::int32_t* indices;
  const Value* data;
  const std::int32_t* empty_rows;
  const int4* chunks;    // tile_chunk
  const int4* cut_rows;  // cut_row
  sum_type* partial;
  unsigned* arrived;  // [cut rows], zero between runs
};

// V consecutive elements that are read once.
template <int V, class T>
__device__ __forceinline__ cuda::vector<T, V> load_once(const T* from) {
  constexpr int bytes = sizeof(T) * V;
  cuda::vector<T, V> result;
  if constexpr (bytes == 2) {
    *reinterpret_cast<unsigned short*>(&result) = __ldcs(reinterpret_cast<const unsigned short*>(from));
  } else if constexpr (bytes == 4) {
    *reinterpret_cast<unsigned*>(&result) = __ldcs(reinterpret_cast<const unsigned*>(from));
  } else if constexpr (bytes == 8) {
    *reinterpret_cast<uint2*>(&result) = __ldcs(reinterpret_cast<const uint2*>(from));
  } else {
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i) {
      reinterpret_cast<uint4*>(&result)[i] = __ldcs(reinterpret_cast<const uint4*>(from) + i);
    }
  }
  return result;
}

// What a lane has of a tile: V neighbouring places in each of its steps.
template <int V, class Value>
struct lane_tile {
  static constexpr int steps = places_per_lane / V;

  cuda::vector<std::int32_t, V> indices[steps];
  cuda::vector<Value, V> values[steps];
  std::uint32_t lanes[steps];

  __device__ __forceinline__ void load(const hub_view<Value>& A, int tile) {
    const std::int64_t first = std::int64_t{tile} * (32 * steps) + cuda::lane_id();
#pragma unroll
    for (int s = 0; s < steps; ++s) indices[s] = load_once<V>(A.indices + (first + 32 * s) * V);
#pragma unroll
    for (int s = 0; s < steps; ++s) values[s] = load_once<V>(A.data + (first + 32 * s) * V);
#pragma unroll
    for (int s = 0; s < steps; ++s) lanes[s] = __ldcs(A.lanes + first + 32 * s);
  }
};

// x at the places that are not in hubs.
template <int V, class Value>
struct gathered {
  Value x[places_per_lane];

  __device__ __forceinline__ void gather(const lane_tile<V, Value>& tile, const Value* __restrict__ from) {
#pragma unroll
    for (int i = 0; i < places_per_lane; ++i) {
      const std::int32_t index = tile.indices[i / V].lane[i % V];
      x[i] = Value(0);
      if (index >= 0) x[i] = cuda::read_only(from + index);
    }
  }
};

// The row sums of a chunk, tile after tile. Members are the same in all lanes unless they say otherwise.
template <class Value>
struct chunk_sums {
  using sum_type = cuda::sum_type_t<Value>;
  static constexpr std::uint32_t no_row = ~std::uint32_t{0};

  Value* y;
  bool open;                   // the row that goes on from the chunk before has not ended yet
  sum_type before = 0;         // its sum in this chunk, once it has
  sum_type carried = 0;        // of the row at the last lane so far
  std::uint32_t row = no_row;  // of this lane in the last step

  // A step of 32 lanes; `meaning` as in hub_csr::lanes.
  __device__ __forceinline__ void add(sum_type sum, std::uint32_t meaning) {
    const unsigned lane = cuda::lane_id();
    const unsigned heads = cuda::ballot((meaning & hub_row_head) != 0);
    if (heads & 1u) {
      finish_row();
      carried = 0;
    }
    if (lane == 0) sum += carried;
    sum = cuda::segmented_scan(sum, heads);
    unsigned last_lanes = heads >> 1;  // of a row, as far as this step tells
    if (open && last_lanes != 0) {
      before = cuda::from_lane(sum, __ffs(static_cast<int>(last_lanes)) - 1);
      open = false;
      last_lanes &= last_lanes - 1;
    }
    row = meaning & ~hub_row_head;
    if (last_lanes >> lane & 1u) y[row] = cuda::narrow<Value>(sum);
    carried = cuda::from_lane(sum, 31);
  }

  // The row of lane 31 ends there.
  __device__ __forceinline__ void finish_row() {
    if (open) {
      before = carried;
      open = false;
    } else if (cuda::lane_id() == 31 && row != no_row) {
      y[row] = cuda::narrow<Value>(carried);
    }
  }
};

template <int V, class Value>
__device__ __forceinline__ void sum_tile(const lane_tile<V, Value>& tile, const gathered<V, Value>& others,
                                         const Value* hub_x, chunk_sums<Value>& sums) {
  Value x[places_per_lane];
#pragma unroll
  for (int i = 0; i < places_per_lane; ++i) {
    const std::int32_t index = tile.indices[i / V].lane[i % V];
    x[i] = others.x[i];
    if (index < 0) x[i] = hub_x[static_cast<std::uint32_t>(index) & ~hub_bit];
  }
#pragma unroll
  for (int s = 0; s < lane_tile<V, Value>::steps; ++s) {
    cuda::sum_type_t<Value> sum = 0;
#pragma unroll
    for (int v = 0; v < V; ++v) sum += cuda::widen(tile.values[s].lane[v]) * cuda::widen(x[s * V + v]);
    sums.add(sum, tile.lanes[s]);
  }
}

// Leaves the part that a chunk has of a cut row. Called by whole warps, with the same sum in every lane.
template <class Value>
__device__ __forceinline__ void add_part(const hub_view<Value>& A, int cut, unsigned chunk, cuda::sum_type_t<Value> sum,
                                         Value* y) {
  const int4 row = __ldg(A.cut_rows + cut);
  const int own = static_cast<int>(chunk) - row.y;
  if (!cuda::warp_arrives_last<4>(A.partial + row.w, own, row.z, A.arrived + cut, sum)) return;
  const cuda::sum_type_t<Value> total = cuda::group_sum<32>(sum);
  if (cuda::lane_id() == 0) y[row.x] = cuda::narrow<Value>(total);
}

template <int V, class Value>
__device__ __forceinline__ void prefetch_tiles(const hub_view<Value>& A, int begin, int end) {
  const int tiles = min(end - begin, prefetched_tiles);
  if (tiles == 0) return;
  const std::int64_t place = std::int64_t{begin} * hub_tile;
  const unsigned lane = cuda::lane_id();
  if (lane == 0) cuda::prefetch_to_l2(A.data + place, tiles * hub_tile * sizeof(Value));
  if (lane == 1) cuda::prefetch_to_l2(A.indices + place, tiles * hub_tile * sizeof(std::int32_t));
  if (lane == 2) cuda::prefetch_to_l2(A.lanes + place / V, tiles * (hub_tile / V) * sizeof(std::uint32_t));
}

// Copies x at the hubs, several at a time: each takes two dependent loads.
template <unsigned Threads, class Value>
__device__ __forceinline__ void load_hubs(const hub_view<Value>& A, const Value* __restrict__ x, Value* hub_x) {
  constexpr unsigned batch = 8;
  for (unsigned first = threadIdx.x; first < A.num_hubs; first += batch * Threads) {
    std::int32_t columns[batch];
    Value values[batch];
#pragma unroll
    for (unsigned u = 0; u < batch; ++u) columns[u] = __ldg(A.hubs + min(first + u * Threads, A.num_hubs - 1));
#pragma unroll
    for (unsigned u = 0; u < batch; ++u) values[u] = cuda::read_only(x + columns[u]);
#pragma unroll
    for (unsigned u = 0; u < batch; ++u) {
      if (first + u * Threads < A.num_hubs) hub_x[first + u * Threads] = values[u];
    }
  }
  if (threadIdx.x == 0) hub_x[A.num_hubs] = Value(0);  // for places without an entry
}

// As many as leave every thread the registers it needs: about 64, and 80 with float64.
template <class Value>
inline constexpr int threads_per_block = sizeof(Value) < 8 ? 1024 : 768;

template <int V, class Value>
__global__ void __launch_bounds__(threads_per_block<Value>, 1)
    hub_csr_segmented_sum_kernel(const hub_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  constexpr unsigned threads = threads_per_block<Value>;
  extern __shared__ uint4 shared[];
  Value* const hub_x = reinterpret_cast<Value*>(shared);
  // Neighbouring chunks go to different thread blocks: all of them get parts of the matrix that are much alike.
  const unsigned chunk = threadIdx.x / 32 * gridDim.x + blockIdx.x;
  const int4 mine = chunk < A.num_chunks ? __ldg(A.chunks + chunk) : int4{0, 0, -1, -1};
  const int begin = mine.x, end = mine.y;
  prefetch_tiles<V>(A, begin, end);
  for (unsigned i = blockIdx.x * threads + threadIdx.x; i < A.num_empty_rows; i += gridDim.x * threads) {
    y[__ldg(A.empty_rows + i)] = cuda::narrow<Value>(cuda::sum_type_t<Value>(0));
  }
  load_hubs<threads>(A, x, hub_x);
  lane_tile<V, Value> tile{};
  lane_tile<V, Value> next{};
  gathered<V, Value> even{};
  gathered<V, Value> odd{};
  if (begin < end) tile.load(A, begin);
  if (begin + 1 < end) next.load(A, begin + 1);
  if (begin < end) even.gather(tile, x);
  __syncthreads();
  if (begin == end) return;

  chunk_sums<Value> sums{.y = y, .open = mine.z >= 0};
  // Gathers are never copied from register to register: that would wait for them.
  const auto step = [&](int t, const gathered<V, Value>& others, gathered<V, Value>& next_others) {
    if (t + 1 < end) next_others.gather(next, x);
    const lane_tile<V, Value> current = tile;
    tile = next;
    if (t + 2 < end) next.load(A, t + 2);
    cuda::keep_load_order();
    sum_tile(current, others, hub_x, sums);
  };
  for (int t = begin; t < end; t += 2) {
    step(t, even, odd);
    if (t + 1 < end) step(t + 1, odd, even);
  }
  const bool one_row = sums.open;
  if (mine.z >= 0) add_part(A, mine.z, chunk, one_row ? sums.carried : sums.before, y);
  if (one_row) return;
  if (mine.w >= 0) {
    add_part(A, mine.w, chunk, sums.carried, y);
  } else {
    sums.finish_row();
  }
}

// Chunks of about equally many tiles, and the rows they share.
struct hub_chunks {
  std::vector<tile_chunk> chunks;
  std::vector<cut_row> cut_rows;
  std::int32_t num_partials = 0;

  hub_chunks(const cuda::device_hub_csr& matrix, std::int64_t most) {
    const std::int64_t tiles = matrix.num_tiles();
    const std::int64_t count = std::min(most, tiles);
    const std::vector<std::uint32_t> first_lanes = matrix.first_lanes(count);
    for (std::int64_t c = 0; c < count; ++c) {
      chunks.push_back(
          {static_cast<std::int32_t>(c * tiles / count), static_cast<std::int32_t>((c + 1) * tiles / count), -1, -1});
      const std::uint32_t lane = first_lanes[c];
      if (lane & hub_row_head) continue;
      const auto row = static_cast<std::int32_t>(lane);
      if (cut_rows.empty() || cut_rows.back().row != row) {
        chunks[c - 1].after = static_cast<std::int32_t>(cut_rows.size());
        cut_rows.push_back({row, static_cast<std::int32_t>(c - 1), 1, num_partials++});
      }
      chunks[c].before = static_cast<std::int32_t>(cut_rows.size() - 1);
      ++cut_rows.back().num_chunks;
      ++num_partials;
    }
  }
};

struct resident_grid {
  int blocks;
  std::int64_t shared_bytes;  // that each of them can have

  resident_grid()
      : blocks(cuda::device_attribute(cudaDevAttrMultiProcessorCount)),
        shared_bytes(std::min(cuda::device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
                              cuda::device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) -
                                  cuda::device_attribute(cudaDevAttrReservedSharedMemoryPerBlock))) {}
};

template <class Value>
class hub_csr_plan final : public spmv_plan {
 public:
  hub_csr_plan(cuda::device_hub_csr matrix, const device_allocator& allocate)
      : matrix_(std::move(matrix)), num_blocks_(static_cast<unsigned>(resident_grid().blocks)) {
    const hub_chunks work(matrix_, std::int64_t{num_blocks_} * threads_per_block<Value> / 32);
    chunks_ = cuda::upload(work.chunks.data(), work.chunks.size(), allocate, matrix_.stream());
    cut_rows_ = cuda::upload(work.cut_rows.data(), work.cut_rows.size(), allocate, matrix_.stream());
    partial_ = {static_cast<std::size_t>(work.num_partials), allocate};
    arrived_ = {work.cut_rows.size(), allocate};
    fill_device(arrived_.data(), 0, arrived_.bytes(), matrix_.stream());
    const std::size_t blocks_of_empty_rows =
        (matrix_.num_empty_rows() + threads_per_block<Value> - 1) / threads_per_block<Value>;
    num_blocks_ =
        static_cast<unsigned>(std::min<std::size_t>(num_blocks_, std::max(work.chunks.size(), blocks_of_empty_rows)));
    cuda::dispatch_constant<1, 2, 4>(matrix_.entries_per_lane(), [&](auto entries) {
      // For as many hubs as there can be: other plans use the same kernel with other numbers.
      WARPLOOM_CUDA_CHECK(cudaFuncSetAttribute(hub_csr_segmented_sum_kernel<entries, Value>,
                                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               static_cast<int>(resident_grid().shared_bytes)));
    });
  }

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (num_blocks_ == 0) return;
    cuda::dispatch_constant<1, 2, 4>(matrix_.entries_per_lane(), [&](auto entries) { launch<entries>(x, y, stream); });
  }

  std::size_t bytes() const override {
    return matrix_.bytes() + chunks_.bytes() + cut_rows_.bytes() + partial_.bytes() + arrived_.bytes();
  }
  std::vector<value_array> value_arrays() override { return {matrix_.all_values()}; }

 private:
  using sum_type = cuda::sum_type_t<Value>;

  template <int V>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    const hub_view<Value> A{.num_hubs = static_cast<unsigned>(matrix_.num_hubs()),
                            .num_chunks = static_cast<unsigned>(chunks_.size()),
                            .num_empty_rows = static_cast<unsigned>(matrix_.num_empty_rows()),
                            .hubs = matrix_.hubs(),
                            .lanes = matrix_.lanes(),
                            .indices = matrix_.indices(),
                            .data = matrix_.template values<Value>(),
                            .empty_rows = matrix_.empty_rows(),
                            .chunks = reinterpret_cast<const int4*>(chunks_.data()),
                            .cut_rows = reinterpret_cast<const int4*>(cut_rows_.data()),
                            .partial = partial_.data(),
                            .arrived = arrived_.data()};
    const std::size_t shared_bytes = (matrix_.num_hubs() + 1) * sizeof(Value);
    hub_csr_segmented_sum_kernel<V, Value><<<num_blocks_, threads_per_block<Value>, shared_bytes, stream>>>(
        A, static_cast<const Value*>(x), static_cast<Value*>(y));
    cuda::check_launch("hub_csr_segmented_sum_kernel");
  }

  cuda::device_hub_csr matrix_;
  unsigned num_blocks_;  // of a product
  cuda::device_array<tile_chunk> chunks_;
  cuda::device_array<cut_row> cut_rows_;
  cuda::device_array<sum_type> partial_;
  cuda::device_array<unsigned> arrived_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_hub_csr_segmented_sum(const device_csr& matrix,
                                                                      const product_request& request,
                                                                      const device_allocator& allocate) {
  const std::int64_t bytes =
      std::min(std::int64_t{request.parameters.at("hub_kb")} * 1024, resident_grid().shared_bytes);
  const std::int64_t most = hubs_in(bytes, matrix.dtype());
  const auto accept = [&](double share) {
    refuse_candidate("hub-csr/segmented_sum", hub_share_reason(matrix.summary(), most, [share] { return share; }));
  };
  cuda::device_hub_csr stored(matrix, request.row_ids.get(), most, request.parameters.at("entries_per_lane"), accept,
                              allocate);
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<hub_csr_plan<decltype(value)>>(std::move(stored), allocate);
  });
}

}  // namespace warploom
