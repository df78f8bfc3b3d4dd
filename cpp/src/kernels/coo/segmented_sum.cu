// COO by segmented sums (Bell and Garland 2009): a warp works on a part of 32 * Items consecutive nonzeros, a thread on
// Items of them. A thread sums row by row; partial sums of its first and its last row are passed on between the lanes.
//
// A row that ends within the part is written directly; a row that several parts share is the sum of their partial sums,
// added in a fixed order. Empty rows are in a list of their own, which further warps write.
#include <utility>

#include "device/device_csr.hpp"
#include "kernels/coo/device_coo.hpp"
#include "kernels/description.hpp"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;

template <class Value>
struct coo_view {
  unsigned num_parts;
  unsigned num_empty_rows;
  const int4* borders;  // part_borders
  const std::int32_t* row_indices;
  const std::int32_t* indices;  // -1 where padded
  const Value* data;
  const std::int32_t* empty_rows;
  cuda::cut_rows_view<Value> cut_rows;
};

// `Count` consecutive elements by the widest loads, marked to be evicted first.
template <int Count, class Element>
__device__ __forceinline__ void load_streaming(Element* to, const Element* from) {
  constexpr int bytes = Count * sizeof(Element);
  if constexpr (bytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i) {
      reinterpret_cast<float4*>(to)[i] = __ldcs(reinterpret_cast<const float4*>(from) + i);
    }
  } else {
    static_assert(bytes == 8);
    *reinterpret_cast<float2*>(to) = __ldcs(reinterpret_cast<const float2*>(from));
  }
}

// What a thread has once it has summed its entries: its first and its last row separately.
template <class Sum>
struct thread_sums {
  std::int32_t first;  // rows
  std::int32_t last;
  bool changes;  // whether they differ
  Sum head;      // of the first row, if they differ
  Sum tail;      // of the last row
};

// Adds up the entries of a thread. Rows between its first and its last are complete, and written.
template <int Items, class Value>
__device__ __forceinline__ auto add_entries(const coo_view<Value>& A, std::int64_t begin, const Value* __restrict__ x,
                                            Value* __restrict__ y) {
  using sum_type = cuda::sum_type_t<Value>;
  alignas(16) std::int32_t row[Items];
  alignas(16) std::int32_t column[Items];
  alignas(16) Value value[Items];
  load_streaming<Items>(column, A.indices + begin);
  load_streaming<Items>(value, A.data + begin);
  load_streaming<Items>(row, A.row_indices + begin);
  Value operand[Items];
#pragma unroll
  for (int i = 0; i < Items; ++i) operand[i] = cuda::read_only(x + max(column[i], 0));

  thread_sums<sum_type> sums{row[0], row[Items - 1], false, 0, 0};
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    if (i > 0 && row[i] != row[i - 1]) {
      if (sums.changes) {
        y[row[i - 1]] = cuda::narrow<Value>(sums.tail);
      } else {
        sums.head = sums.tail;
      }
      sums.changes = true;
      sums.tail = 0;
    }
    sums.tail += column[i] >= 0 ? cuda::widen(value[i]) * cuda::widen(operand[i]) : 0;
  }
  return sums;
}

template <int Items, class Value>
__global__ void __launch_bounds__(threads_per_block)
    coo_segmented_sum_kernel(const coo_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  using sum_type = cuda::sum_type_t<Value>;
  const unsigned part = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (part >= A.num_parts) {  // whole warps
    const unsigned i = (part - A.num_parts) * 32 + lane;
    if (i < A.num_empty_rows) y[A.empty_rows[i]] = cuda::narrow<Value>(0);
    return;
  }
  const int4 loaded = __ldg(A.borders + part);
  const cuda::part_borders borders{loaded.x, loaded.y, loaded.z, loaded.w};
  const thread_sums<sum_type> mine = add_entries<Items>(A, (std::int64_t{part} * 32 + lane) * Items, x, y);

  // Segmented scan: `running` becomes the sum of the last row over this lane and the lanes before it that share it.
  const std::int32_t last_before = cuda::from_lane_before(mine.last);
  const std::int32_t first_after = cuda::from_lane_after(mine.first);
  const bool begins = lane == 0 || mine.first != last_before;  // the first row has nothing in the lanes before
  const bool closed = mine.changes || begins;                  // the last row has nothing in the lanes before
  const sum_type running = cuda::segmented_scan(cuda::open_sum<sum_type>{mine.tail, closed}).sum;
  const sum_type carried = cuda::from_lane_before(running);
  const sum_type head = begins ? mine.head : carried + mine.head;

  // A lane finishes its first row if it continues with another, and its last row if the next lane does not continue it.
  const std::int32_t head_row = cuda::from_lane(mine.first, 0);
  const bool ends = lane == 31 || mine.last != first_after;
  const bool finishes_head = mine.changes && mine.first == head_row;
  const bool cut_head = borders.head_slot >= 0;
  const bool cut_tail = borders.tail_slot >= 0 && lane == 31;
  if (mine.changes && !(cut_head && finishes_head)) y[mine.first] = cuda::narrow<Value>(head);
  if (ends && !cut_tail && !(cut_head && mine.last == head_row)) y[mine.last] = cuda::narrow<Value>(running);

  if (cut_head) {  // the whole warp
    const bool holds = finishes_head || (ends && mine.last == head_row);
    const int holder = __ffs(cuda::ballot(holds)) - 1;
    const sum_type sum = cuda::from_lane(finishes_head ? head : running, holder);
    cuda::add_segment<Value>(A.cut_rows, borders.head_cut, borders.head_slot, sum, y + head_row);
  }
  if (borders.tail_slot >= 0) {
    const sum_type sum = cuda::from_lane(running, 31);
    const std::int32_t tail_row = cuda::from_lane(mine.last, 31);
    cuda::add_segment<Value>(A.cut_rows, borders.tail_cut, borders.tail_slot, sum, y + tail_row);
  }
}

template <class Value>
class coo_plan final : public spmv_plan {
 public:
  coo_plan(cuda::device_coo matrix, int items, cudaStream_t stream, const device_allocator& allocate)
      : items_(items),
        matrix_(std::move(matrix)),
        workspace_(matrix_.num_slots(), allocate),
        arrived_(matrix_.num_cut_rows(), allocate) {
    fill_device(arrived_.data(), 0, arrived_.bytes(), stream);
  }

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (matrix_.num_parts() == 0 && matrix_.num_empty_rows() == 0) return;
    cuda::dispatch_constant<4, 8, 16>(
        items_, [&](auto items) { launch<items>(static_cast<const Value*>(x), static_cast<Value*>(y), stream); });
  }

  std::size_t bytes() const override { return matrix_.bytes() + workspace_.bytes() + arrived_.bytes(); }
  std::vector<value_array> value_arrays() override { return {matrix_.all_values()}; }

 private:
  template <int Items>
  void launch(const Value* x, Value* y, cudaStream_t stream) const {
    static_assert(sizeof(cuda::part_borders) == sizeof(int4));
    const coo_view<Value> view{static_cast<unsigned>(matrix_.num_parts()),
                               static_cast<unsigned>(matrix_.num_empty_rows()),
                               reinterpret_cast<const int4*>(matrix_.borders()),
                               matrix_.row_indices(),
                               matrix_.indices(),
                               matrix_.template values<Value>(),
                               matrix_.empty_rows(),
                               {matrix_.cut_rows(), workspace_.data(), arrived_.data()}};
    constexpr std::size_t warps_per_block = threads_per_block / 32;
    const std::size_t warps = matrix_.num_parts() + (matrix_.num_empty_rows() + 31) / 32;
    const auto blocks = static_cast<unsigned>((warps + warps_per_block - 1) / warps_per_block);
    coo_segmented_sum_kernel<Items><<<blocks, threads_per_block, 0, stream>>>(view, x, y);
    cuda::check_launch("coo_segmented_sum_kernel");
  }

  int items_;
  cuda::device_coo matrix_;
  cuda::device_array<cuda::sum_type_t<Value>> workspace_;
  cuda::device_array<unsigned> arrived_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_coo_segmented_sum(const device_csr& matrix,
                                                                  const product_request& request,
                                                                  const device_allocator& allocate) {
  const int items = request.parameters.at("items_per_thread");
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<coo_plan<decltype(value)>>(cuda::device_coo(matrix, 32 * items, allocate), items,
                                                       matrix.stream(), allocate);
  });
}

}  // namespace warploom
