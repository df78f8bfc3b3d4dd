// COO by segmented sums (Bell and Garland 2009): a warp works on a part of 32 * Items consecutive nonzeros, a thread on
// Items of them. A thread sums row by row; partial sums of its first and its last row are passed on between the lanes.
//
// A row that ends within the part is written directly; a row that several parts share is the sum of their partial sums,
// added in a fixed order. Parts are cut at the end of a row where that leaves few of their places empty, so that few
// rows are shared. Empty rows are in a list of their own, which further warps write.
#include <algorithm>
#include <vector>

#include "device/device_csr.hpp"
#include "kernels/coo/cut_rows.hpp"
#include "kernels/description.hpp"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/spmv_plan.hpp"
#include "warploom/formats/coo.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;

// The rows that a part shares with other parts. Numbers are -1 where there is none.
struct part_borders {
  std::int32_t head_cut;   // the row that began in an earlier part
  std::int32_t head_slot;  // slot of the partial sum of its entries here
  std::int32_t tail_cut;   // the row that begins here and continues in the next part
  std::int32_t tail_slot;
};

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
  for (int i = 0; i < Items; ++i) operand[i] = __ldg(x + max(column[i], 0));

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
  const part_borders borders{loaded.x, loaded.y, loaded.z, loaded.w};
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

// ---- Preparation

// Where every part begins in the nonzeros, and the last one ends.
std::vector<std::int64_t> cut_into_parts(const coo_matrix& matrix, std::int64_t part_size) {
  // Small matrices pay for adding the partial sums of cut rows, large ones for the bandwidth that empty places take.
  constexpr std::int64_t small = 1 << 17;
  const std::int64_t spare = matrix.nnz() <= small ? part_size / 2 : part_size / 8;
  const std::vector<std::int32_t>& rows = matrix.row_indices;
  std::vector<std::int64_t> parts{0};
  while (parts.back() < matrix.nnz()) {
    const std::int64_t full = std::min(parts.back() + part_size, matrix.nnz());
    std::int64_t end = full;
    if (full < matrix.nnz()) {  // back to the start of the row that would be cut, if that is not far
      const std::int64_t lowest = std::max(full - spare, parts.back() + 1);
      while (end > lowest && rows[end - 1] == rows[full]) --end;
      if (rows[end - 1] == rows[full]) end = full;
    }
    parts.push_back(end);
  }
  return parts;
}

// Numbers the rows that parts share.
std::vector<part_borders> number_cut_rows(const coo_matrix& matrix, const std::vector<std::int64_t>& parts,
                                          cuda::host_cut_rows& cut_rows) {
  const std::vector<std::int32_t>& rows = matrix.row_indices;
  std::vector<part_borders> borders(parts.size() - 1, {-1, -1, -1, -1});
  const auto goes_on = [&](std::int64_t at) { return at > 0 && at < matrix.nnz() && rows[at - 1] == rows[at]; };
  for (std::size_t p = 0; p < borders.size(); ++p) {
    if (goes_on(parts[p])) {
      borders[p].head_cut = static_cast<std::int32_t>(cut_rows.rows.size()) - 1;
      borders[p].head_slot = cut_rows.add_segment();
    }
    const bool one_shared_row = borders[p].head_slot >= 0 && rows[parts[p]] == rows[parts[p + 1] - 1];
    if (goes_on(parts[p + 1]) && !one_shared_row) {
      borders[p].tail_cut = cut_rows.add_row();
      borders[p].tail_slot = cut_rows.add_segment();
    }
  }
  return borders;
}

// Copies every part to its places; the remaining ones repeat the last row of the part, without a column.
template <class Element>
std::vector<Element> spread(const Element* from, const std::vector<std::int64_t>& parts, std::int64_t part_size,
                            bool repeat_last, Element padding) {
  const auto count = static_cast<std::int64_t>(parts.size()) - 1;
  std::vector<Element> to(count * part_size, padding);
  parallel_for(0, count, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      Element* const rest = std::copy(from + parts[p], from + parts[p + 1], to.data() + p * part_size);
      if (repeat_last) std::fill(rest, to.data() + (p + 1) * part_size, from[parts[p + 1] - 1]);
    }
  });
  return to;
}

template <class Element>
cuda::device_array<Element> upload(const std::vector<Element>& host, const device_allocator& allocate) {
  return cuda::upload(host.data(), host.size(), allocate);
}

std::vector<std::int32_t> find_empty_rows(const csr_view& matrix) {
  std::vector<std::int32_t> empty;
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    if (matrix.row_length(row) == 0) empty.push_back(static_cast<std::int32_t>(row));
  }
  return empty;
}

template <class Value>
class coo_plan final : public spmv_plan {
 public:
  coo_plan(const csr_view& given, int items, const device_allocator& allocate)
      : coo_plan(to_coo(given), find_empty_rows(given), items, allocate) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (borders_.size() == 0 && empty_rows_.size() == 0) return;
    cuda::dispatch_constant<4, 8, 16>(
        items_, [&](auto items) { launch<items>(static_cast<const Value*>(x), static_cast<Value*>(y), stream); });
  }

  std::size_t bytes() const override {
    return borders_.bytes() + row_indices_.bytes() + indices_.bytes() + data_.bytes() + empty_rows_.bytes() +
           cut_rows_.bytes();
  }

 private:
  coo_plan(const coo_matrix& matrix, const std::vector<std::int32_t>& empty_rows, int items,
           const device_allocator& allocate)
      : coo_plan(matrix, empty_rows, items, cut_into_parts(matrix, 32 * items), cuda::host_cut_rows{}, allocate) {}

  coo_plan(const coo_matrix& matrix, const std::vector<std::int32_t>& empty_rows, int items,
           const std::vector<std::int64_t>& parts, cuda::host_cut_rows cut_rows, const device_allocator& allocate)
      : items_(items),
        borders_(upload(number_cut_rows(matrix, parts, cut_rows), allocate)),
        row_indices_(upload(spread(matrix.row_indices.data(), parts, 32 * items, true, std::int32_t{0}), allocate)),
        indices_(upload(spread(matrix.indices.data(), parts, 32 * items, false, std::int32_t{-1}), allocate)),
        data_(upload(spread(reinterpret_cast<const Value*>(matrix.data.data()), parts, 32 * items, false, Value(0)),
                     allocate)),
        empty_rows_(upload(empty_rows, allocate)),
        cut_rows_(cut_rows, allocate) {}

  template <int Items>
  void launch(const Value* x, Value* y, cudaStream_t stream) const {
    static_assert(sizeof(part_borders) == sizeof(int4));
    const coo_view<Value> view{static_cast<unsigned>(borders_.size()),
                               static_cast<unsigned>(empty_rows_.size()),
                               reinterpret_cast<const int4*>(borders_.data()),
                               row_indices_.data(),
                               indices_.data(),
                               data_.data(),
                               empty_rows_.data(),
                               cut_rows_.view()};
    constexpr std::size_t warps_per_block = threads_per_block / 32;
    const std::size_t warps = borders_.size() + (empty_rows_.size() + 31) / 32;
    const auto blocks = static_cast<unsigned>((warps + warps_per_block - 1) / warps_per_block);
    coo_segmented_sum_kernel<Items><<<blocks, threads_per_block, 0, stream>>>(view, x, y);
    cuda::check_launch("coo_segmented_sum_kernel");
  }

  int items_;
  cuda::device_array<part_borders> borders_;
  cuda::device_array<std::int32_t> row_indices_;
  cuda::device_array<std::int32_t> indices_;
  cuda::device_array<Value> data_;
  cuda::device_array<std::int32_t> empty_rows_;
  cuda::device_cut_rows<Value> cut_rows_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_coo_segmented_sum(const device_csr& source,
                                                                  const product_request& request,
                                                                  const device_allocator& allocate) {
  const csr_view& matrix = source.host();
  const int items = request.parameters.at("items_per_thread");
  return cuda::dispatch_device_type(matrix.dtype, [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<coo_plan<decltype(value)>>(matrix, items, allocate);
  });
}

}  // namespace warploom
