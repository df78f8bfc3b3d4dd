// Conversion from CSR to CSR with hubs on the GPU. Columns are counted and, where there are more than hubs, sorted by
// their counts, stably: of equal ones those further left come first. A scan over the lanes of rows says where each row
// begins. The host reads both sizes at once, and warps then move equally many nonzeros each to their places.
#include <algorithm>
#include <bit>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/device/nonzeros.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/hub_csr/device_hub_csr.hpp"
#include "warploom/formats/format.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;

// What the host reads.
struct hub_sizes {
  unsigned long long entries_in_hubs;
  std::int32_t num_hubs;
  std::int32_t num_lanes;
};

// ---- Columns

__global__ void count_entries_kernel(const std::int32_t* __restrict__ indices, std::int64_t nnz,
                                     std::uint32_t* counts) {
  const std::int64_t j = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (j < nnz) atomicAdd(counts + __ldcs(indices + j), 1u);
}

// Every column is its own index at first. `counts` is null where hubs are picked from sorted columns, or not at all.
__global__ void number_columns_kernel(const std::uint32_t* __restrict__ counts, std::int64_t num_cols,
                                      std::int32_t* __restrict__ index_of, std::uint8_t* __restrict__ is_hub) {
  const std::int64_t column = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (column >= num_cols) return;
  index_of[column] = static_cast<std::int32_t>(column);
  if (is_hub != nullptr) is_hub[column] = counts != nullptr && counts[column] > 1;
}

__global__ void pick_hubs_kernel(const std::uint32_t* __restrict__ sorted_counts,
                                 const std::int32_t* __restrict__ sorted_columns, std::int64_t most,
                                 std::uint8_t* __restrict__ is_hub) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (i < most && sorted_counts[i] > 1) is_hub[sorted_columns[i]] = 1;
}

// At least one thread. `sizes->num_hubs` is known; the rest of it is written here.
__global__ void number_hubs_kernel(const std::int32_t* __restrict__ hubs, const std::uint32_t* __restrict__ counts,
                                   const std::int32_t* __restrict__ num_lanes, std::int32_t* __restrict__ index_of,
                                   hub_sizes* sizes) {
  const std::int64_t hub = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (hub == 0) sizes->num_lanes = *num_lanes;
  unsigned long long entries = 0;
  if (hub < sizes->num_hubs) {
    const std::int32_t column = hubs[hub];
    entries = counts[column];
    index_of[column] = static_cast<std::int32_t>(hub_bit | static_cast<std::uint32_t>(hub));
  }
  entries = group_sum<32>(entries);
  if (lane_id() == 0 && entries > 0) atomicAdd(&sizes->entries_in_hubs, entries);
}

// ---- Rows

// One thread for every row, and one more, whose lanes are 0. `is_empty` may be null.
__global__ void count_lanes_kernel(const std::int32_t* __restrict__ indptr, std::int64_t num_rows, int entry_bits,
                                   std::int32_t* __restrict__ lanes, std::uint8_t* __restrict__ is_empty) {
  const std::int64_t p = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (p > num_rows) return;
  const unsigned length = p < num_rows ? static_cast<unsigned>(indptr[p + 1] - indptr[p]) : 0;
  lanes[p] = static_cast<std::int32_t>((length + (1u << entry_bits) - 1) >> entry_bits);
  if (is_empty != nullptr && p < num_rows) is_empty[p] = length == 0;
}

__global__ void rename_rows_kernel(const std::int32_t* __restrict__ names, std::int64_t count,
                                   std::int32_t* __restrict__ rows) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (i < count) rows[i] = names[rows[i]];
}

// ---- Entries

template <class Word>
struct fill_task {
  const std::int32_t* indptr;
  const std::int32_t* from_indices;
  const Word* from_data;
  const std::int32_t* row_ids;     // or null
  const std::int32_t* first_lane;  // of each row
  const std::int32_t* index_of;    // of each column
  int num_rows;
  unsigned nnz;
  unsigned nnz_of_warp;
  int entry_bits;  // a lane has 1 << entry_bits entries
  std::int32_t no_entry;
  std::int64_t num_lanes;   // of rows
  std::int64_t num_places;  // to the end of the last tile
  std::uint32_t* lanes;
  std::int32_t* indices;
  Word* data;

  __device__ std::uint32_t row_of(int p) const {
    return static_cast<std::uint32_t>(row_ids == nullptr ? p : __ldg(row_ids + p));
  }
  __device__ void clear(std::int64_t place) const {
    indices[place] = no_entry;
    data[place] = Word{0};
  }
};

template <class Word>
__global__ void __launch_bounds__(threads_per_block) fill_lanes_kernel(const __grid_constant__ fill_task<Word> A) {
  const unsigned warp = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  const unsigned first = min(warp * A.nnz_of_warp, A.nnz);
  const unsigned per_lane = 1u << A.entry_bits;
  for_each_nonzero(A.indptr, A.num_rows, first, min(first + A.nnz_of_warp, A.nnz),
                   [&](unsigned j, int row, bool there) {
                     if (!there) return;
                     const unsigned within = j - static_cast<unsigned>(__ldg(A.indptr + row));
                     const unsigned i = within & (per_lane - 1);  // in its lane
                     const std::int64_t lane = __ldg(A.first_lane + row) + std::int64_t{within >> A.entry_bits};
                     const std::int64_t place = (lane << A.entry_bits) + i;
                     A.indices[place] = __ldg(A.index_of + __ldcs(A.from_indices + j));
                     A.data[place] = __ldcs(A.from_data + j);
                     if (i == 0) A.lanes[lane] = A.row_of(row) | (within == 0 ? hub_row_head : 0);
                     if (j + 1 < static_cast<unsigned>(__ldg(A.indptr + row + 1))) return;
                     for (unsigned free = 1; i + free < per_lane; ++free) A.clear(place + free);
                   });
  // The lanes of the last tile behind the last row.
  if (blockIdx.x > 0) return;
  const std::uint32_t last_row = A.row_of(find_row(A.indptr, 0, A.num_rows, A.nnz - 1));
  const std::int64_t end = A.num_places >> A.entry_bits;
  for (std::int64_t lane = A.num_lanes + threadIdx.x; lane < end; lane += threads_per_block) A.lanes[lane] = last_row;
  for (std::int64_t place = (A.num_lanes << A.entry_bits) + threadIdx.x; place < A.num_places;
       place += threads_per_block) {
    A.clear(place);
  }
}

__global__ void gather_first_lanes_kernel(const std::uint32_t* __restrict__ lanes, std::int64_t num_tiles,
                                          std::int64_t lanes_per_tile, std::int64_t count,
                                          std::uint32_t* __restrict__ first_lanes) {
  const std::int64_t c = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (c < count) first_lanes[c] = lanes[c * num_tiles / count * lanes_per_tile];
}

}  // namespace

// Columns and their indices, before the host knows how many of them are hubs.
struct device_hub_csr::hub_columns {
  std::int64_t most;       // hubs
  pooled_memory sizes;     // hub_sizes
  pooled_memory index_of;  // [columns]
  pooled_memory counts;    // [columns]; not counted if `most` is 0
  pooled_memory hubs;      // [most]
};

struct device_hub_csr::row_lanes {
  pooled_memory first;  // [rows + 1]
};

device_hub_csr::device_hub_csr(const device_csr& matrix, const std::int32_t* row_ids, std::int64_t max_hubs,
                               int entries_per_lane, const accept_share& accept, const device_allocator& allocate)
    : num_rows_(matrix.num_rows()),
      num_cols_(matrix.num_cols()),
      nnz_(matrix.nnz()),
      dtype_(matrix.dtype()),
      stream_(matrix.stream()),
      entries_per_lane_(entries_per_lane) {
  check_hubs(max_hubs, entries_per_lane);
  if (num_rows_ == 0) return;
  const row_lanes rows = count_lanes(matrix, row_ids, allocate);
  if (nnz_ == 0) return;
  const hub_columns columns = choose_hubs(matrix, max_hubs);
  number_hubs_kernel<<<blocks_for(std::max<std::int64_t>(columns.most, 1)), threads_per_block, 0, stream_>>>(
      columns.hubs.as<const std::int32_t>(), columns.counts.as<const std::uint32_t>(),
      rows.first.as<const std::int32_t>() + num_rows_, columns.index_of.as<std::int32_t>(),
      columns.sizes.as<hub_sizes>());
  check_launch("number_hubs_kernel");
  const hub_sizes sizes = read_back(columns.sizes.as<const hub_sizes>(), stream_);
  if (accept) accept(static_cast<double>(sizes.entries_in_hubs) / static_cast<double>(nnz_));

  const std::int64_t per_tile = hub_tile / entries_per_lane_;
  const auto num_lanes = static_cast<std::size_t>((sizes.num_lanes + per_tile - 1) / per_tile * per_tile);
  const std::size_t num_places = num_lanes * entries_per_lane_;
  hubs_ = {static_cast<std::size_t>(sizes.num_hubs), allocate};
  lanes_ = {num_lanes, allocate};
  indices_ = {num_places, allocate};
  data_ = {num_places * size_of(dtype_), allocate};
  if (hubs_.size() > 0) {
    WARPLOOM_CUDA_CHECK(
        cudaMemcpyAsync(hubs_.data(), columns.hubs.data(), hubs_.bytes(), cudaMemcpyDeviceToDevice, stream_));
  }
  fill(matrix, row_ids, columns, rows, sizes.num_lanes);
}

device_hub_csr::row_lanes device_hub_csr::count_lanes(const device_csr& matrix, const std::int32_t* row_ids,
                                                      const device_allocator& allocate) {
  row_lanes rows{pooled_memory((num_rows_ + 1) * sizeof(std::int32_t), stream_)};
  empty_rows_ = {static_cast<std::size_t>(matrix.summary().empty_rows), allocate};
  const bool some_empty = empty_rows_.size() > 0;
  const pooled_memory is_empty(some_empty ? num_rows_ : 0, stream_);
  auto* const lanes = rows.first.as<std::int32_t>();
  count_lanes_kernel<<<blocks_for(num_rows_ + 1), threads_per_block, 0, stream_>>>(
      matrix.indptr32(), num_rows_, std::countr_zero(static_cast<unsigned>(entries_per_lane_)), lanes,
      is_empty.as<std::uint8_t>());
  check_launch("count_lanes_kernel");
  exclusive_scan(lanes, lanes, num_rows_ + 1, stream_);
  if (!some_empty) return rows;
  const pooled_memory found(sizeof(std::int32_t), stream_);  // as many as are known
  select_positions(is_empty.as<const std::uint8_t>(), empty_rows_.data(), found.as<std::int32_t>(), num_rows_, stream_);
  if (row_ids != nullptr) {
    rename_rows_kernel<<<blocks_for(static_cast<std::int64_t>(empty_rows_.size())), threads_per_block, 0, stream_>>>(
        row_ids, static_cast<std::int64_t>(empty_rows_.size()), empty_rows_.data());
    check_launch("rename_rows_kernel");
  }
  return rows;
}

// The matrix has nonzeros, and so columns.
device_hub_csr::hub_columns device_hub_csr::choose_hubs(const device_csr& matrix, std::int64_t max_hubs) const {
  const std::int64_t most = std::min(max_hubs, num_cols_);
  const bool some = most > 0;
  const bool sorts = some && num_cols_ > most;
  hub_columns columns{most, pooled_memory(sizeof(hub_sizes), stream_),
                      pooled_memory(num_cols_ * sizeof(std::int32_t), stream_),
                      pooled_memory(some ? num_cols_ * sizeof(std::uint32_t) : 0, stream_),
                      pooled_memory(most * sizeof(std::int32_t), stream_)};
  WARPLOOM_CUDA_CHECK(cudaMemsetAsync(columns.sizes.data(), 0, sizeof(hub_sizes), stream_));
  auto* const counts = columns.counts.as<std::uint32_t>();
  auto* const index_of = columns.index_of.as<std::int32_t>();
  if (some) {
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(counts, 0, num_cols_ * sizeof(std::uint32_t), stream_));
    count_entries_kernel<<<blocks_for(nnz_), threads_per_block, 0, stream_>>>(matrix.indices(), nnz_, counts);
    check_launch("count_entries_kernel");
  }
  const pooled_memory flags(some ? num_cols_ : 0, stream_);
  auto* const is_hub = flags.as<std::uint8_t>();
  number_columns_kernel<<<blocks_for(num_cols_), threads_per_block, 0, stream_>>>(sorts ? nullptr : counts, num_cols_,
                                                                                  index_of, is_hub);
  check_launch("number_columns_kernel");
  if (!some) return columns;
  if (sorts) {
    const pooled_memory sorted_counts(num_cols_ * sizeof(std::uint32_t), stream_);
    const pooled_memory sorted_columns(num_cols_ * sizeof(std::int32_t), stream_);
    sort_pairs_descending(counts, sorted_counts.as<std::uint32_t>(), index_of, sorted_columns.as<std::int32_t>(),
                          num_cols_, bits_for(static_cast<std::uint64_t>(nnz_)), stream_);
    pick_hubs_kernel<<<blocks_for(most), threads_per_block, 0, stream_>>>(
        sorted_counts.as<const std::uint32_t>(), sorted_columns.as<const std::int32_t>(), most, is_hub);
    check_launch("pick_hubs_kernel");
  }
  select_positions(is_hub, columns.hubs.as<std::int32_t>(), &columns.sizes.as<hub_sizes>()->num_hubs, num_cols_,
                   stream_);
  return columns;
}

void device_hub_csr::fill(const device_csr& matrix, const std::int32_t* row_ids, const hub_columns& columns,
                          const row_lanes& rows, std::int64_t num_lanes) {
  const unsigned nnz_of_warp = nnz_per_warp(nnz_);
  const std::int64_t warps = (nnz_ + nnz_of_warp - 1) / nnz_of_warp;
  dispatch_bits(dtype_, [&](auto bits) {
    using word = decltype(bits);
    const fill_task<word> task{.indptr = matrix.indptr32(),
                               .from_indices = matrix.indices(),
                               .from_data = matrix.values<word>(),
                               .row_ids = row_ids,
                               .first_lane = rows.first.as<const std::int32_t>(),
                               .index_of = columns.index_of.as<const std::int32_t>(),
                               .num_rows = static_cast<int>(num_rows_),
                               .nnz = static_cast<unsigned>(nnz_),
                               .nnz_of_warp = nnz_of_warp,
                               .entry_bits = std::countr_zero(static_cast<unsigned>(entries_per_lane_)),
                               .no_entry = static_cast<std::int32_t>(hub_bit | hubs_.size()),
                               .num_lanes = num_lanes,
                               .num_places = static_cast<std::int64_t>(indices_.size()),
                               .lanes = lanes_.data(),
                               .indices = indices_.data(),
                               .data = reinterpret_cast<word*>(data_.data())};
    fill_lanes_kernel<<<blocks_for(warps * 32), threads_per_block, 0, stream_>>>(task);
  });
  check_launch("fill_lanes_kernel");
}

std::vector<std::uint32_t> device_hub_csr::first_lanes(std::int64_t count) const {
  std::vector<std::uint32_t> found(count);
  if (count == 0) return found;
  const std::size_t bytes = found.size() * sizeof(found[0]);
  const pooled_memory gathered(bytes, stream_);
  gather_first_lanes_kernel<<<blocks_for(count), threads_per_block, 0, stream_>>>(
      lanes_.data(), num_tiles(), hub_tile / entries_per_lane_, count, gathered.as<std::uint32_t>());
  check_launch("gather_first_lanes_kernel");
  copy_to_host(found.data(), gathered.data(), bytes, stream_);
  return found;
}

hub_csr device_hub_csr::download() const {
  hub_csr result;
  result.num_rows = num_rows_;
  result.num_cols = num_cols_;
  result.dtype = dtype_;
  result.num_entries = nnz_;
  result.entries_per_lane = entries_per_lane_;
  const auto copy = [&](auto& to, const auto& from) {
    to.resize(from.size());
    copy_to_host(to.data(), from.data(), from.bytes(), stream_);
  };
  copy(result.hubs, hubs_);
  copy(result.lanes, lanes_);
  copy(result.indices, indices_);
  copy(result.data, data_);
  copy(result.empty_rows, empty_rows_);
  return result;
}

}  // namespace warploom::cuda

namespace warploom {

std::unique_ptr<stored_matrix> convert_to_hub_csr_on_gpu(const device_csr& matrix, const option_values& options) {
  return stored(cuda::device_hub_csr(matrix, nullptr, options.integer<std::int64_t>("hubs"),
                                     options.integer("entries_per_lane"), {}, allocate_device_memory)
                    .download());
}

}  // namespace warploom
