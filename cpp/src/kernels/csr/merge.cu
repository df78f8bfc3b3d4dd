// Merge-path SpMV (Merrill and Garland 2016): nonzeros and row ends, merged in storage order, are distributed
// evenly over thread blocks (at preparation) and then over the threads of each (in shared memory). Every thread walks
// its items; a segmented sum over the threads completes the rows that cross from one to the next. Rows that cross from
// one thread block to the next are completed by the last of them to arrive.
#include <climits>

#include "device/device_csr.hpp"
#include "kernels/csr/device_merge_tiles.hpp"
#include "kernels/description.hpp"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/thread_block.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;
constexpr int warps_per_block = threads_per_block / 32;

template <class Value>
struct merge_view {
  const int4* tiles;  // merge_tile
  const int2* cuts;   // merge_cuts, or null if no row is cut
  const std::int32_t* indptr;
  const std::int32_t* indices;
  const Value* data;
  const std::int32_t* row_ids;
  // A tile leaves the sum of the row that it stops in, if it is cut, and of the cut row that it ends.
  cuda::sum_type_t<Value>* tails;
  cuda::sum_type_t<Value>* heads;
  unsigned* arrived;  // one for each tile, for the cut row that starts in it; zero between runs

  __device__ std::int64_t row_of_y(int row) const { return row_ids ? row_ids[row] : row; }
};

// Rows that end before item `diagonal` of the merged sequence.
__device__ __forceinline__ int rows_before(const int* row_ends, int num_rows, int num_nonzeros, int diagonal) {
  int low = max(0, diagonal - num_nonzeros);
  int high = min(diagonal, num_rows);
  while (low < high) {
    const int middle = (low + high) / 2;
    if (row_ends[middle] + middle < diagonal) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The partial sum that the threads before this one pass on to it; `total` becomes that of the whole thread block.
template <class Sum>
__device__ __forceinline__ Sum sum_before(cuda::open_sum<Sum> mine, cuda::open_sum<Sum> (&warps)[warps_per_block],
                                          Sum& total) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  mine = cuda::segmented_scan(mine);
  if (lane == 31) warps[warp] = mine;
  cuda::open_sum<Sum> before{cuda::from_lane_before(mine.sum),
                             cuda::from_lane_before(static_cast<int>(mine.closed)) != 0};
  if (lane == 0) before = {0, false};
  __syncthreads();
  Sum carry = 0;
#pragma unroll
  for (int w = 0; w < warps_per_block; ++w) {
    if (w == warp) before.prepend(carry, true);
    carry = warps[w].closed ? warps[w].sum : carry + warps[w].sum;
  }
  total = carry;
  return before.sum;
}

// Called by the last of the tiles first .. last: adds their partial sums of their common row, in their order.
template <class Value, class Sum>
__device__ void sum_cut_row(const merge_view<Value>& A, int first, int last, int row, Sum (&warp_sums)[warps_per_block],
                            Value* y) {
  Sum sum = 0;
#pragma unroll 4
  for (int tile = first + static_cast<int>(threadIdx.x); tile <= last; tile += threads_per_block) {
    sum += __ldcg((tile < last ? A.tails : A.heads) + tile);
  }
  sum = cuda::block_sum<threads_per_block>(sum, warp_sums);
  if (threadIdx.x == 0) y[A.row_of_y(row)] = cuda::narrow<Value>(sum);
}

// Stores this tile's partial sums of cut rows, and completes those of which it is the last.
template <class Value, class Sum>
__device__ void finish_cut_rows(const merge_view<Value>& A, const int4& tile, const int2& cuts, Sum head, Sum tail,
                                Value* y) {
  __shared__ Sum warp_sums[warps_per_block];
  __shared__ bool is_last[2];
  const int self = blockIdx.x;
  const bool ends_row = tile.y > tile.x;
  if (cuts.x >= 0 && ends_row) {
    if (threadIdx.x == 0) __stcg(A.heads + self, head);
    if (cuda::block_arrives_last(A.arrived + cuts.x, self - cuts.x + 1, is_last[0])) {
      sum_cut_row(A, cuts.x, self, tile.x, warp_sums, y);
    }
  }
  if (cuts.y >= 0) {
    const int first = cuts.x >= 0 && !ends_row ? cuts.x : self;
    if (threadIdx.x == 0) __stcg(A.tails + self, tail);
    if (cuda::block_arrives_last(A.arrived + first, cuts.y - first + 1, is_last[1])) {
      sum_cut_row(A, first, cuts.y, tile.y, warp_sums, y);
    }
  }
}

template <int Items, class Value>
__global__ void __launch_bounds__(threads_per_block)
    csr_merge_kernel(const merge_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  using sum_type = cuda::sum_type_t<Value>;
  constexpr int size = threads_per_block * Items;
  __shared__ sum_type products[cuda::spread<sum_type>(size)];
  __shared__ sum_type row_sums[size];
  __shared__ int row_ends[size + 1];  // among the products
  __shared__ cuda::open_sum<sum_type> warps[warps_per_block];

  const int4 tile = __ldg(A.tiles + blockIdx.x);  // row, end_row, begin, end
  const int2 cuts = A.cuts != nullptr ? __ldg(A.cuts + blockIdx.x) : int2{-1, -1};
  const int thread = threadIdx.x;
  const int num_rows = tile.y - tile.x;
  const int num_nonzeros = tile.w - tile.z;

  std::int32_t columns[Items];
  Value values[Items];
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    const int at = thread + i * threads_per_block;
    columns[i] = at < num_nonzeros ? __ldcs(A.indices + tile.z + at) : 0;
    values[i] = at < num_nonzeros ? cuda::read_once(A.data + tile.z + at) : Value(0.0f);
  }
  for (int row = thread; row < num_rows; row += threads_per_block) {
    row_ends[row] = __ldg(A.indptr + tile.x + 1 + row) - tile.z;
  }
  if (thread == 0) row_ends[num_rows] = INT_MAX;
  __syncthreads();

  // The search overlaps with the loads.
  const int num_items = num_rows + num_nonzeros;
  const int diagonal = min(thread * Items, num_items);
  const int first_row = rows_before(row_ends, num_rows, num_nonzeros, diagonal);
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    const int at = thread + i * threads_per_block;
    if (at < num_nonzeros) {
      products[cuda::spread<sum_type>(at)] = cuda::widen(values[i]) * cuda::widen(cuda::read_only(x + columns[i]));
    }
  }
  __syncthreads();

  sum_type head = 0;  // of the first row that ends here, without the partial sums of the threads before
  cuda::open_sum<sum_type> open{0, false};
  int row = first_row;
  int nonzero = diagonal - first_row;
  int row_end = row_ends[row];
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    if (diagonal + i >= num_items) break;
    if (nonzero < row_end) {
      open.sum += products[cuda::spread<sum_type>(nonzero++)];
    } else {
      if (open.closed) {
        row_sums[row] = open.sum;
      } else {
        head = open.sum;
      }
      open = {0, true};
      row_end = row_ends[++row];
    }
  }

  sum_type tail;
  const sum_type before = sum_before(open, warps, tail);
  if (row > first_row) row_sums[first_row] = before + head;
  __syncthreads();
  for (int i = thread + (cuts.x >= 0 ? 1 : 0); i < num_rows; i += threads_per_block) {
    y[A.row_of_y(tile.x + i)] = cuda::narrow<Value>(row_sums[i]);
  }
  if (cuts.x >= 0 || cuts.y >= 0) finish_cut_rows(A, tile, cuts, row_sums[0], tail, y);
}

template <class Value>
class csr_merge_plan final : public spmv_plan {
 public:
  using sum_type = cuda::sum_type_t<Value>;

  csr_merge_plan(cuda::csr_rows rows, cuda::device_merge_tiles tiles, int items_per_thread,
                 const device_allocator& allocate)
      : rows_(std::move(rows)),
        items_per_thread_(items_per_thread),
        tiles_(std::move(tiles)),
        tails_(tiles_.cuts_rows() ? tiles_.num_tiles() : 0, allocate),
        heads_(tails_.size(), allocate),
        arrived_(tails_.size(), allocate) {
    fill_device(arrived_.data(), 0, arrived_.bytes(), rows_.matrix->stream());
  }

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (tiles_.num_tiles() == 0) return;
    cuda::dispatch_constant<2, 4, 8, 16>(items_per_thread_, [&](auto items) { launch<items>(x, y, stream); });
  }

  std::size_t bytes() const override {
    return rows_.bytes() + tiles_.bytes() + tails_.bytes() + heads_.bytes() + arrived_.bytes();
  }
  std::vector<value_array> value_arrays() override { return {rows_.matrix->all_values()}; }

 private:
  template <int Items>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    const device_csr& A = *rows_.matrix;
    const merge_view<Value> view{tiles_.tiles(),      tiles_.cuts(), A.indptr32(),  A.indices(),    A.values<Value>(),
                                 rows_.row_ids.get(), tails_.data(), heads_.data(), arrived_.data()};
    csr_merge_kernel<Items><<<static_cast<unsigned>(tiles_.num_tiles()), threads_per_block, 0, stream>>>(
        view, static_cast<const Value*>(x), static_cast<Value*>(y));
    cuda::check_launch("csr_merge_kernel");
  }

  cuda::csr_rows rows_;
  int items_per_thread_;
  cuda::device_merge_tiles tiles_;
  cuda::device_array<sum_type> tails_;
  cuda::device_array<sum_type> heads_;
  cuda::device_array<unsigned> arrived_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_csr_merge(const device_csr& matrix, const product_request& request,
                                                          const device_allocator& allocate) {
  const int items_per_thread = request.parameters.at("items_per_thread");
  cuda::device_merge_tiles tiles(matrix, threads_per_block * items_per_thread, allocate);
  cuda::csr_rows rows(matrix, request, allocate);
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<csr_merge_plan<decltype(value)>>(std::move(rows), std::move(tiles), items_per_thread,
                                                             allocate);
  });
}

}  // namespace warploom
