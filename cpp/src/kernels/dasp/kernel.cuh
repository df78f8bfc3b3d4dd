// y = A x through DASP in one launch: the first thread blocks multiply long rows, the next ones medium rows, then the
// combined short rows, and the last ones rows of one entry and empty rows. Every sum is written directly to its row of
// y.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/dasp/device_dasp.hpp"
#include "kernels/dasp/math.cuh"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/spmv_plan.hpp"

namespace warploom::cuda {

inline constexpr int dasp_threads = 256;
inline constexpr int dasp_warp_bits = 3;
inline constexpr int dasp_warps = 1 << dasp_warp_bits;
static_assert(dasp_warps * 32 == dasp_threads);

// Slots of one section.
template <class Value>
struct dasp_slots {
  const std::int32_t* indices;
  const Value* data;
};

// 2^long_bits warps share a part of a long row, and 2^medium_bits warps share a row block.
template <class Value>
struct dasp_view {
  dasp_slots<Value> long_slots, regular, combined, single, irregular;
  const dasp_part* parts;
  const std::int32_t* part_ptr;
  const std::int32_t* block_ptr;
  const std::int32_t* irregular_ptr;
  const std::int32_t* medium_rows;
  const std::int32_t* combined_rows;
  const std::int32_t* single_rows;  // then the empty ones
  sum_type_t<Value>* workspace;     // [part]: sums of the parts of cut rows
  unsigned* arrived;                // [long row]: its parts that are done, zero between runs
  int num_parts, num_medium;
  int num_wide_blocks, num_row_blocks;
  int num_one_three, num_pairs, num_combined;
  int num_single, num_single_and_empty;
  int long_bits, medium_bits;
  unsigned medium_begin, narrow_begin, combined_begin, single_begin;  // first thread block of each kind
};

namespace detail {

// The entry of x for a slot; 0 for padding, whose value is 0 too.
template <class Value>
__device__ __forceinline__ Value gather(const Value* x, std::int32_t column, std::int32_t least_column = 0) {
  return column >= least_column ? read_only(x + column) : Value{};
}

// The minimum of these columns, and of 0: always 0, which the compiler does not know. A gather that uses it waits for
// all these columns and so cannot be scheduled among the loads of columns, where it would delay the later ones.
template <int Count>
__device__ __forceinline__ std::int32_t least_of(const std::int32_t (&columns)[Count]) {
  std::int32_t all = columns[0];
#pragma unroll
  for (int u = 1; u < Count; ++u) all &= columns[u];
  return all == INT32_MIN ? 1 : 0;
}

// This lane's slots of `dasp_unroll` blocks.
template <class Value>
struct slot_batch {
  std::int32_t columns[dasp_unroll];
  Value values[dasp_unroll];

  // Blocks first, first + stride, ... below `count`; beyond it, padding.
  __device__ __forceinline__ void load(const dasp_slots<Value>& slots, int first, int stride, int count) {
#pragma unroll
    for (int u = 0; u < dasp_unroll; ++u) {  // before the values: entries of x wait for them
      const int block = first + u * stride;
      columns[u] = block < count ? __ldcs(slots.indices + block * dasp_block_slots) : -1;
    }
#pragma unroll
    for (int u = 0; u < dasp_unroll; ++u) {
      const int block = first + u * stride;
      values[u] = block < count ? read_once(slots.data + block * dasp_block_slots) : Value{};
    }
  }
};

// This lane's view of the blocks from `first_block` on.
template <class Value>
__device__ __forceinline__ dasp_slots<Value> blocks_from(const dasp_slots<Value>& section, int first_block) {
  const std::int64_t slot = std::int64_t{first_block} * dasp_block_slots + threadIdx.x % 32;
  return {section.indices + slot, section.data + slot};
}

// Adds blocks first, first + stride, ... below `count`; `next` holds the first batch of them. Slots of the following
// batch are in flight together with entries of x.
template <class Sums, class Value>
__device__ __forceinline__ void add_blocks(Sums& sums, slot_batch<Value>& next, const dasp_slots<Value>& slots,
                                           int first, int stride, int count, const Value* x) {
  for (int block = first; block < count; block += dasp_unroll * stride) {
    const slot_batch<Value> current = next;
    Value entries[dasp_unroll];
#pragma unroll
    for (int u = 0; u < dasp_unroll; ++u) entries[u] = gather(x, current.columns[u]);
    next.load(slots, block + dasp_unroll * stride, stride, count);
    sums.add(current.values, entries);
  }
}

// Called by a whole warp with the sum of part `index` of a row cut into several. The warp that arrives last adds the
// parts up in their order, so that the result does not depend on which one that was.
template <class Value>
__device__ void finish_cut_row(const dasp_view<Value>& A, int index, const dasp_part& part, sum_type_t<Value> sum,
                               Value* y) {
  const int first = A.part_ptr[part.w];
  const int end = A.part_ptr[part.w + 1];
  if (!warp_arrives_last<4>(A.workspace + first, index - first, end - first, A.arrived + part.w, sum)) return;
  sum = group_sum<32>(sum);
  if (lane_id() == 0) y[part.z] = narrow<Value>(sum);
}

template <class Sums, class Value>
__device__ __forceinline__ void multiply_long(const dasp_view<Value>& A, unsigned block, const Value* x, Value* y,
                                              sum_type_t<Value> (&shared)[dasp_warps][dasp_block_rows]) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int stride = 1 << A.long_bits;
  const int share = warp & (stride - 1);
  const int index = static_cast<int>(block << (dasp_warp_bits - A.long_bits)) + (warp >> A.long_bits);
  const bool there = index < A.num_parts;
  const dasp_part part = there ? __ldg(A.parts + index) : make_int4(0, 0, 0, -1);
  const dasp_slots<Value> slots = blocks_from(A.long_slots, part.x);
  Sums sums;
  slot_batch<Value> next;
  next.load(slots, share, stride, part.y);
  add_blocks(sums, next, slots, share, stride, part.y, x);
  sum_type_t<Value> sum = group_sum<32>(sums.part(lane));
  if (stride > 1) {
    if (lane == 0) shared[warp][0] = sum;
    __syncthreads();
    if (share != 0) return;
    for (int other = 1; other < stride; ++other) sum += shared[warp + other][0];
  }
  if (!there) return;
  if (part.w >= 0) return finish_cut_row(A, index, part, sum, y);
  if (lane == 0) y[part.z] = narrow<Value>(sum);
}

template <class Sums, class Value>
__device__ __forceinline__ void multiply_medium(const dasp_view<Value>& A, unsigned block, const Value* x, Value* y,
                                                sum_type_t<Value> (&shared)[dasp_warps][dasp_block_rows]) {
  const int lane = threadIdx.x % 32;
  const int row_in_block = lane / dasp_block_columns;
  const int column = lane % dasp_block_columns;
  const int warp = threadIdx.x / 32;
  const int stride = 1 << A.medium_bits;
  const int share = warp & (stride - 1);
  const int row_block = static_cast<int>(block << (dasp_warp_bits - A.medium_bits)) + (warp >> A.medium_bits);
  const int i = row_block * dasp_block_rows + row_in_block;
  // All offsets are loaded at once.
  const bool block_there = row_block < A.num_wide_blocks;
  const bool row_there = block_there && i < A.num_medium;
  const int first_block = block_there ? __ldg(A.block_ptr + row_block) : 0;
  const int count = block_there ? __ldg(A.block_ptr + row_block + 1) - first_block : 0;
  const int irregular_begin = row_there ? __ldg(A.irregular_ptr + i) : 0;
  const int irregular_end = row_there ? __ldg(A.irregular_ptr + i + 1) : 0;
  const int row = row_there ? __ldg(A.medium_rows + i) : 0;

  // The first irregular entry of each lane is in flight together with the first blocks; most rows have no more.
  const int irregular_stride = dasp_block_columns * stride;
  int j = irregular_begin + share * dasp_block_columns + column;
  const bool any = j < irregular_end;
  const std::int32_t irregular_column = any ? __ldcs(A.irregular.indices + j) : -1;
  const Value irregular_value = any ? read_once(A.irregular.data + j) : Value{};
  const dasp_slots<Value> slots = blocks_from(A.regular, first_block);
  slot_batch<Value> next;
  next.load(slots, share, stride, count);
  const Value irregular_entry = gather(x, irregular_column, least_of(next.columns));
  Sums sums;
  add_blocks(sums, next, slots, share, stride, count, x);
  sum_type_t<Value> sum = sums.part(lane) + widen(irregular_value) * widen(irregular_entry);
#pragma unroll 4
  for (j += irregular_stride; j < irregular_end; j += irregular_stride) {
    sum += widen(read_once(A.irregular.data + j)) * widen(read_only(x + __ldcs(A.irregular.indices + j)));
  }
  sync_warp();
  sum = interleaved_sum<1, dasp_block_columns>(sum);
  if (stride > 1) {
    if (column == 0) shared[warp][row_in_block] = sum;
    __syncthreads();
    if (share != 0) return;
    for (int other = 1; other < stride; ++other) sum += shared[warp + other][row_in_block];
  }
  if (row_there && column == 0) y[row] = narrow<Value>(sum);
}

// Row blocks of at most two blocks hold too little to keep a warp busy: it takes four of them at a time.
template <class Sums, class Value>
__device__ __forceinline__ void multiply_narrow(const dasp_view<Value>& A, unsigned block, const Value* x, Value* y) {
  constexpr int together = 4;
  const int column = threadIdx.x % dasp_block_columns;
  const int row_in_block = threadIdx.x % 32 / dasp_block_columns;
  const int first = A.num_wide_blocks + static_cast<int>(block * dasp_warps + threadIdx.x / 32) * together;
  int bounds[together + 1], irregular[together], irregular_end[together], rows[together];
#pragma unroll
  for (int u = 0; u <= together; ++u) bounds[u] = __ldg(A.block_ptr + min(first + u, A.num_row_blocks));
#pragma unroll
  for (int u = 0; u < together; ++u) {
    const int i = (first + u) * dasp_block_rows + row_in_block;
    irregular[u] = __ldg(A.irregular_ptr + min(i, A.num_medium)) + column;
    irregular_end[u] = __ldg(A.irregular_ptr + min(i + 1, A.num_medium));
    rows[u] = i < A.num_medium && column == 0 ? __ldg(A.medium_rows + i) : -1;
  }
  sum_type_t<Value> sum[together] = {};
  bool more = true;
  for (int step = 0; more; ++step) {  // one block and four irregular entries of each row
    std::int32_t columns[2 * together];
    Value values[2 * together], entries[2 * together];
    more = false;
#pragma unroll
    for (int u = 0; u < together; ++u) {
      const dasp_slots<Value> slots = blocks_from(A.regular, bounds[u] + step);
      const bool regular = bounds[u] + step < bounds[u + 1];
      columns[u] = regular ? __ldcs(slots.indices) : -1;
      values[u] = regular ? read_once(slots.data) : Value{};
      const bool rest = irregular[u] < irregular_end[u];
      columns[together + u] = rest ? __ldcs(A.irregular.indices + irregular[u]) : -1;
      values[together + u] = rest ? read_once(A.irregular.data + irregular[u]) : Value{};
      irregular[u] += dasp_block_columns;
      more = more || bounds[u] + step + 1 < bounds[u + 1] || irregular[u] < irregular_end[u];
    }
    const std::int32_t least_column = least_of(columns);
#pragma unroll
    for (int u = 0; u < 2 * together; ++u) entries[u] = gather(x, columns[u], least_column);
#pragma unroll
    for (int u = 0; u < together; ++u) {
      Sums sums;
      sums.add(values[u], entries[u]);
      sum[u] += sums.part(threadIdx.x % 32) + widen(values[together + u]) * widen(entries[together + u]);
    }
    more = any_lane(more);
  }
#pragma unroll
  for (int u = 0; u < together; ++u) {
    sum[u] = interleaved_sum<1, dasp_block_columns>(sum[u]);
    if (rows[u] >= 0) y[rows[u]] = narrow<Value>(sum[u]);
  }
}

// Entries of a combined row that belong to its first row: 1 of 1&3, 2 of 2&2, all of a row of four.
template <class Value>
__device__ __forceinline__ int split_of(const dasp_view<Value>& A, int combined) {
  return combined < A.num_one_three ? 1 : combined < A.num_pairs ? 2 : 4;
}

// A warp multiplies four blocks, each twice where it holds pairs: once for the first rows, once for the second ones.
// What belongs to the other row is zero both in the block and in x, as neither may be finite.
template <class Sums, class Value>
__device__ __forceinline__ void multiply_combined_blocks(const dasp_view<Value>& A, int first, const Value* x,
                                                         Value* y) {
  const int lane = threadIdx.x % 32;
  const int column = lane % dasp_block_columns;
  const bool stores = Sums::holds(lane);
  first += threadIdx.x / 32 * 32;
  std::int32_t columns[4], rows[4], second_rows[4];
  Value values[4], entries[4];
#pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int combined = first + u * dasp_block_rows + lane / dasp_block_columns;
    const bool there = combined < A.num_combined;
    const std::int64_t slot = std::int64_t{4} * combined + column;
    columns[u] = there ? __ldcs(A.combined.indices + slot) : -1;
    values[u] = there ? read_once(A.combined.data + slot) : Value{};
    const bool pair = combined < A.num_pairs;
    const std::int64_t id = pair ? std::int64_t{2} * combined : std::int64_t{A.num_pairs} + combined;
    rows[u] = there && stores ? __ldg(A.combined_rows + id) : -1;
    second_rows[u] = pair && stores ? __ldg(A.combined_rows + id + 1) : -1;
  }
#pragma unroll
  for (int u = 0; u < 4; ++u) entries[u] = gather(x, columns[u]);
#pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int combined = first + u * dasp_block_rows;
    const bool is_first = column < split_of(A, combined + lane / dasp_block_columns);
    Sums sums;
    sums.add(is_first ? values[u] : Value{}, is_first ? entries[u] : Value{});
    if (rows[u] >= 0) y[rows[u]] = narrow<Value>(sums.at(lane));
    if (combined >= A.num_pairs) continue;  // the same for the whole warp
    Sums second;
    second.add(is_first ? Value{} : values[u], is_first ? Value{} : entries[u]);
    if (second_rows[u] >= 0) y[second_rows[u]] = narrow<Value>(second.at(lane));
  }
}

// Four adjacent values, in the type they are summed in.
__device__ __forceinline__ void load_four(const __half* from, float (&to)[4]) {
  const uint2 bits = __ldcs(reinterpret_cast<const uint2*>(from));
  const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&bits.x));
  const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&bits.y));
  to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}
__device__ __forceinline__ void load_four(const __nv_bfloat16* from, float (&to)[4]) {
  const uint2 bits = __ldcs(reinterpret_cast<const uint2*>(from));
  const float2 low = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.x));
  const float2 high = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.y));
  to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}
__device__ __forceinline__ void load_four(const float* from, float (&to)[4]) {
  const float4 values = __ldcs(reinterpret_cast<const float4*>(from));
  to[0] = values.x, to[1] = values.y, to[2] = values.z, to[3] = values.w;
}
__device__ __forceinline__ void load_four(const double* from, double (&to)[4]) {
  const double2 low = __ldcs(reinterpret_cast<const double2*>(from));
  const double2 high = __ldcs(reinterpret_cast<const double2*>(from) + 1);
  to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}

// Without tensor cores a thread multiplies a combined row of its own.
template <class Value>
__device__ __forceinline__ void multiply_combined_row(const dasp_view<Value>& A, int first, const Value* x, Value* y) {
  const int combined = first + threadIdx.x;
  if (combined >= A.num_combined) return;
  const int4 columns = __ldcs(reinterpret_cast<const int4*>(A.combined.indices) + combined);
  sum_type_t<Value> product[4];
  load_four(A.combined.data + std::int64_t{4} * combined, product);
  const bool pair = combined < A.num_pairs;
  const std::int64_t id = pair ? std::int64_t{2} * combined : std::int64_t{A.num_pairs} + combined;
  const std::int32_t row = __ldg(A.combined_rows + id);
  const std::int32_t second_row = pair ? __ldg(A.combined_rows + id + 1) : -1;
  product[0] *= widen(gather(x, columns.x));
  product[1] *= widen(gather(x, columns.y));
  product[2] *= widen(gather(x, columns.z));
  product[3] *= widen(gather(x, columns.w));
  const int split = split_of(A, combined);
  const sum_type_t<Value> rest = product[2] + product[3];
  const sum_type_t<Value> sum = split == 1   ? product[0]
                                : split == 2 ? product[0] + product[1]
                                             : product[0] + product[1] + rest;
  y[row] = narrow<Value>(sum);
  if (second_row >= 0) y[second_row] = narrow<Value>(split == 1 ? product[1] + rest : rest);
}

template <class Value>
__device__ __forceinline__ void multiply_single(const dasp_view<Value>& A, unsigned block, const Value* x, Value* y) {
  const unsigned i = block * dasp_threads + threadIdx.x;
  if (i >= static_cast<unsigned>(A.num_single_and_empty)) return;
  const std::int32_t row = __ldg(A.single_rows + i);
  sum_type_t<Value> product = 0;
  if (i < static_cast<unsigned>(A.num_single)) {
    product = widen(read_once(A.single.data + i)) * widen(read_only(x + __ldcs(A.single.indices + i)));
  }
  y[row] = narrow<Value>(product);
}

}  // namespace detail

template <class Sums, class Value>
__global__ void __launch_bounds__(dasp_threads, 4)
    dasp_kernel(const __grid_constant__ dasp_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  __shared__ sum_type_t<Value> shared[dasp_warps][dasp_block_rows];
  const unsigned block = blockIdx.x;
  if (block < A.medium_begin) {
    detail::multiply_long<Sums>(A, block, x, y, shared);
  } else if (block < A.narrow_begin) {
    detail::multiply_medium<Sums>(A, block - A.medium_begin, x, y, shared);
  } else if (block < A.combined_begin) {
    detail::multiply_narrow<Sums>(A, block - A.narrow_begin, x, y);
  } else if (block < A.single_begin) {
    const int first = static_cast<int>(block - A.combined_begin) * dasp_threads;
    if constexpr (Sums::on_tensor_cores) {
      detail::multiply_combined_blocks<Sums>(A, first, x, y);
    } else {
      detail::multiply_combined_row(A, first, x, y);
    }
  } else {
    detail::multiply_single(A, block - A.single_begin, x, y);
  }
}

// Sums is cuda_core_sums<Value> or tensor_core_sums<Value>.
template <class Sums, class Value>
class dasp_plan final : public spmv_plan {
 public:
  dasp_plan(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : matrix_(matrix, request, allocate) {
    const dasp_sizes& sizes = matrix_.sizes();
    if (sizes.num_parts > sizes.num_long) {
      workspace_ = {static_cast<std::size_t>(sizes.num_parts), allocate};
      arrived_ = {static_cast<std::size_t>(sizes.num_long), allocate};
      WARPLOOM_CUDA_CHECK(cudaMemsetAsync(arrived_.data(), 0, arrived_.bytes(), matrix.stream()));
    }
    set_slots();
    set_grid();
  }

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (num_blocks_ == 0) return;
    dasp_kernel<Sums>
        <<<num_blocks_, dasp_threads, 0, stream>>>(view_, static_cast<const Value*>(x), static_cast<Value*>(y));
    check_launch("dasp_kernel");
  }

  std::size_t bytes() const override { return matrix_.bytes() + workspace_.bytes() + arrived_.bytes(); }
  std::vector<value_array> value_arrays() override { return {matrix_.all_values()}; }
  std::vector<double> time_conversion(const timing_options& options) override {
    return matrix_.time_conversion(options);
  }

 private:
  void set_slots() {
    const dasp_sizes& sizes = matrix_.sizes();
    const auto section = [&](std::int64_t begin) {
      return dasp_slots<Value>{matrix_.indices() + begin, matrix_.template values<Value>() + begin};
    };
    view_.long_slots = section(0);
    view_.regular = section(sizes.regular_begin());
    view_.combined = section(sizes.combined_begin());
    view_.single = section(sizes.single_begin());
    view_.irregular = section(sizes.irregular_begin());
    view_.parts = matrix_.parts();
    view_.part_ptr = matrix_.part_ptr();
    view_.block_ptr = matrix_.block_ptr();
    view_.irregular_ptr = matrix_.irregular_ptr();
    view_.medium_rows = matrix_.row_ids() + sizes.num_long;
    view_.combined_rows = matrix_.row_ids() + sizes.combined_rows();
    view_.single_rows = matrix_.row_ids() + sizes.single_rows();
    view_.workspace = workspace_.data();
    view_.arrived = arrived_.data();
    view_.num_parts = sizes.num_parts;
    view_.num_medium = sizes.num_medium;
    view_.num_wide_blocks = sizes.num_wide_blocks();
    view_.num_row_blocks = sizes.num_row_blocks();
    view_.num_one_three = sizes.num_one_three;
    view_.num_pairs = sizes.num_pairs();
    view_.num_combined = sizes.num_combined();
    view_.num_single = sizes.num_single;
    view_.num_single_and_empty = sizes.num_single + sizes.num_empty;
  }

  void set_grid() {
    const dasp_sizes& sizes = matrix_.sizes();
    const int longest_part = sizes.num_parts > sizes.num_long ? 2 * dasp_part_groups
                             : sizes.num_parts > 0            ? 2 * sizes.num_groups / sizes.num_parts
                                                              : 0;
    const int longest_medium = (sizes.longest_medium + dasp_block_columns - 1) / dasp_block_columns;
    view_.long_bits = share_bits(sizes.num_parts, longest_part);
    view_.medium_bits = share_bits(sizes.num_wide_blocks(), longest_medium);
    const auto blocks = [](std::int64_t items, int per_block) {
      return static_cast<unsigned>((items + per_block - 1) / per_block);
    };
    view_.medium_begin = blocks(sizes.num_parts, dasp_warps >> view_.long_bits);
    view_.narrow_begin = view_.medium_begin + blocks(sizes.num_wide_blocks(), dasp_warps >> view_.medium_bits);
    view_.combined_begin =
        view_.narrow_begin + blocks(sizes.num_row_blocks() - sizes.num_wide_blocks(), 4 * dasp_warps);
    view_.single_begin = view_.combined_begin + blocks(sizes.num_combined(), dasp_threads);
    num_blocks_ = view_.single_begin + blocks(view_.num_single_and_empty, dasp_threads);
  }

  // How many warps (as a power of two) share an item: more while the GPU would otherwise stay half empty and a warp
  // would still need more than one batch of blocks.
  static int share_bits(std::int64_t items, int longest) {
    const std::int64_t warps = 32 * std::int64_t{device_attribute(cudaDevAttrMultiProcessorCount)};
    int bits = 0;
    while (bits < dasp_warp_bits && items << (bits + 1) <= warps && longest > dasp_unroll << bits) ++bits;
    return bits;
  }

  device_dasp matrix_;
  device_array<sum_type_t<Value>> workspace_;
  device_array<unsigned> arrived_;
  dasp_view<Value> view_{};
  unsigned num_blocks_ = 0;
};

}  // namespace warploom::cuda
