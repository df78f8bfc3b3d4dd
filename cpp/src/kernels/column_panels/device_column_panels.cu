// Conversion from CSR to column panels on the GPU. The nonzeros are sorted by panel, stably and in one pass for up to
// 256 panels, and take their rows and values along. Before that, masks of the rows of every row block and panel are
// collected; a scan over their bits numbers the partial sums. The host reads back where panels begin, and a kernel
// writes tile after tile.
#include <algorithm>
#include <cstring>
#include <string>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/column_panels/bank_order.hpp"
#include "kernels/column_panels/device_column_panels.hpp"
#include "kernels/column_panels/panel_size.hpp"
#include "kernels/device/nonzeros.cuh"
#include "kernels/device/warp.cuh"
#include "warploom/device.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int warps_per_block = threads_per_block / 32;

// Whether the values themselves are sorted, next to rows in 64 bits; the positions of larger ones are.
template <class Word>
inline constexpr bool sorts_values = sizeof(Word) <= 4;

// Number of the column within the panel, and in the lowest `panel_bits` bits the panel.
struct key_layout {
  unsigned width;
  int panel_bits;
  column_numbers numbers;

  template <int ValueBytes>
  __device__ std::uint32_t key(unsigned panel, unsigned column_in_panel) const {
    const unsigned number =
        numbers == column_numbers::in_bank_order ? bank_order<ValueBytes>(column_in_panel) : column_in_panel;
    return number << panel_bits | panel;
  }

  __device__ unsigned panel(std::uint32_t key) const { return key & ((1u << panel_bits) - 1); }
  __device__ unsigned column(std::uint32_t key) const { return key >> panel_bits; }
};

__device__ __forceinline__ int row_of(std::uint64_t payload) { return static_cast<int>(payload >> 32); }

// With more panels, masks are not collected in shared memory.
constexpr unsigned most_collected_panels = 128;

// The masks of one row block, collected by a warp.
class collected_masks {
 public:
  // `masks`: [panel][row block], zeros before.
  __device__ collected_masks(std::uint32_t* own, unsigned num_panels, std::int64_t num_row_blocks, std::uint32_t* masks)
      : own_(own), num_panels_(num_panels), num_row_blocks_(num_row_blocks), masks_(masks) {
    for (unsigned panel = lane_id(); panel < num_panels_; panel += 32) own_[panel] = 0;
    sync_warp();
  }

  // For each lane, unless it is not `there`, that its row has a nonzero in the panel. Called by whole warps with rows
  // that ascend; those of a call are fewer than rows_per_mask apart: in no more than two row blocks.
  __device__ void add(int row, unsigned panel, bool there) {
    const unsigned all = ballot(there);
    if (all == 0) return;
    const int first = from_lane(row, __ffs(static_cast<int>(all)) - 1) / rows_per_mask;
    const int last = from_lane(row, 31 - __clz(static_cast<int>(all))) / rows_per_mask;
    const int own = row / rows_per_mask;
    const std::uint32_t bit = 1u << row % rows_per_mask;
    go_to(first);
    if (there && own == first) atomicOr(own_ + panel, bit);
    if (last == first) return;
    go_to(last);
    if (there && own == last) atomicOr(own_ + panel, bit);
  }

  // Other warps may have nonzeros of the same row block.
  __device__ void flush() {
    if (row_block_ < 0) return;
    sync_warp();
    for (unsigned panel = lane_id(); panel < num_panels_; panel += 32) {
      const std::uint32_t mask = own_[panel];
      if (mask == 0) continue;
      atomicOr(masks_ + panel * num_row_blocks_ + row_block_, mask);
      own_[panel] = 0;
    }
    sync_warp();
  }

 private:
  __device__ void go_to(int row_block) {
    if (row_block == row_block_) return;
    flush();
    row_block_ = row_block;
  }

  std::uint32_t* own_;
  unsigned num_panels_;
  std::int64_t num_row_blocks_;
  std::uint32_t* masks_;
  int row_block_ = -1;
};

// The key and the payload of every nonzero, and the masks [panel][row block]. `Collects`: with as many panels at most
// as are collected.
template <class Word, bool Collects>
__global__ void __launch_bounds__(threads_per_block)
    key_nonzeros_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ indices,
                        const Word* __restrict__ data, int num_rows, unsigned nnz, unsigned nnz_of_warp,
                        key_layout layout, unsigned num_panels, std::int64_t num_row_blocks,
                        std::uint32_t* __restrict__ keys, std::uint64_t* __restrict__ payloads, std::uint32_t* masks) {
  __shared__ std::uint32_t memory[warps_per_block][Collects ? most_collected_panels : 1];
  collected_masks collected(memory[threadIdx.x / 32], Collects ? num_panels : 0, num_row_blocks, masks);
  const unsigned warp = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  const unsigned first = min(warp * nnz_of_warp, nnz);
  for_each_nonzero(indptr, num_rows, first, min(first + nnz_of_warp, nnz), [&](unsigned j, int row, bool there) {
    const unsigned column = there ? static_cast<unsigned>(__ldcs(indices + j)) : 0;
    const unsigned panel = column / layout.width;
    if (there) {
      std::uint64_t payload = j;
      if constexpr (sorts_values<Word>) payload = __ldcs(data + j);
      __stcs(keys + j, layout.key<sizeof(Word)>(panel, column - panel * layout.width));
      __stcs(payloads + j, static_cast<std::uint64_t>(row) << 32 | payload);
    }
    // Neighbours in a row are often in one panel.
    const int row_before = from_lane_before(row);
    const unsigned panel_before = from_lane_before(panel);
    const bool repeats = lane_id() > 0 && row_before == row && panel_before == panel;
    if constexpr (Collects) {
      collected.add(row, panel, there && !repeats);
    } else {
      // A long row would set the same few bits again and again; another warp may do so at the same time.
      const bool in_one_row = from_lane(row, 0) == from_lane(row, 31);
      if (there && !repeats) {
        std::uint32_t* const mask = masks + panel * num_row_blocks + row / rows_per_mask;
        const std::uint32_t bit = 1u << row % rows_per_mask;
        if (!in_one_row || (*mask & bit) == 0) atomicOr(mask, bit);
      }
    }
  });
  if constexpr (Collects) collected.flush();
}

// The first of the sorted nonzeros of each panel, and then the numbers of nonzeros and of sums.
__global__ void find_panels_kernel(const std::uint32_t* __restrict__ keys, unsigned nnz, key_layout layout,
                                   unsigned num_panels, const std::int32_t* __restrict__ num_sums,
                                   std::int32_t* __restrict__ starts) {
  const unsigned panel = blockIdx.x * threads_per_block + threadIdx.x;
  if (panel > num_panels) return;
  unsigned low = panel == num_panels ? nnz : 0;
  for (unsigned high = nnz; low < high;) {
    const unsigned middle = low + (high - low) / 2;
    if (layout.panel(keys[middle]) < panel) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  starts[panel] = static_cast<std::int32_t>(low);
  if (panel == num_panels) starts[panel + 1] = *num_sums;
}

__global__ void pair_row_blocks_kernel(const std::int32_t* __restrict__ first_sums,
                                       const std::uint32_t* __restrict__ masks, std::int64_t num_row_blocks,
                                       std::int64_t num_panels, int2* __restrict__ pairs) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (at >= num_row_blocks * num_panels) return;
  const std::int64_t from = at % num_panels * num_row_blocks + at / num_panels;
  pairs[at] = {first_sums[from], static_cast<int>(masks[from])};
}

template <class Word>
struct fill_task {
  key_layout layout;
  int num_panels;
  int num_tiles;
  const int2* panels;
  const std::uint32_t* keys;
  const std::uint64_t* payloads;
  const Word* data;
  const int2* row_blocks;
  std::uint16_t* columns;
  Word* values;
  std::uint16_t* lanes;
  int2* tile_starts;

  __device__ Word value(std::uint64_t payload) const {
    if constexpr (sorts_values<Word>) return static_cast<Word>(payload);
    return __ldg(data + static_cast<std::uint32_t>(payload));
  }
};

// The last panel whose first tile is not past `tile`.
__device__ int panel_of_tile(const int2* __restrict__ panels, int num_panels, int tile) {
  int panel = 0;
  for (int count = num_panels; count > 1;) {
    const int half = count / 2;
    if (__ldg(panels + panel + half).y <= tile) panel += half;
    count -= half;
  }
  return panel;
}

// Where the value of a place of a tile is stored.
template <class Word>
__host__ __device__ constexpr int interleaved(int place) {
  constexpr int per_vector = 16 / sizeof(Word);
  const int lane = place / places_per_lane;
  const int within = place % places_per_lane;
  return (within / per_vector * 32 + lane) * per_vector + within % per_vector;
}

// One warp for each tile.
template <class Word>
__global__ void __launch_bounds__(threads_per_block) fill_tiles_kernel(const __grid_constant__ fill_task<Word> A) {
  const int tile = static_cast<int>(blockIdx.x) * warps_per_block + static_cast<int>(threadIdx.x / 32);
  if (tile >= A.num_tiles) return;  // whole warps
  const int lane = static_cast<int>(lane_id());
  const int panel = panel_of_tile(A.panels, A.num_panels, tile);
  const int2 here = __ldg(A.panels + panel);
  const auto end = static_cast<unsigned>(__ldg(A.panels + panel + 1).x);
  const unsigned first = here.x + static_cast<unsigned>(tile - here.y) * panel_tile;
  const std::int64_t first_place = std::int64_t{tile} * panel_tile;

  unsigned ends_of_lane = 0;  // of the 8 places that a lane takes in a product
#pragma unroll
  for (int i = 0; i < panel_tile / 32; ++i) {
    const int place = i * 32 + lane;
    const unsigned from = first + place;
    const bool there = from < end;
    const std::uint64_t payload = there ? __ldg(A.payloads + from) : 0;
    const int row = row_of(payload);
    const int row_after = from + 1 < end ? row_of(__ldg(A.payloads + from + 1)) : -1;
    const unsigned ends = ballot(there && row != row_after);
    if (lane / 4 == i) ends_of_lane = ends >> lane % 4 * 8 & 0xffu;
    A.columns[first_place + place] =
        static_cast<std::uint16_t>(there ? A.layout.column(__ldcs(A.keys + from)) : A.layout.width);
    A.values[first_place + interleaved<Word>(place)] = there ? A.value(payload) : Word{0};
    if (place == 0) {
      const bool continues = tile > here.y && row_of(__ldg(A.payloads + first - 1)) == row;
      const int2 block = A.row_blocks[std::int64_t{row / rows_per_mask} * A.num_panels + panel];
      const int before = block.x + __popc(static_cast<unsigned>(block.y) & ((1u << row % rows_per_mask) - 1));
      A.tile_starts[tile] = {before, continues ? row : -1};
    }
  }
  const int count = __popc(ends_of_lane);
  const int before = segmented_scan(count, 1u) - count;
  A.lanes[std::int64_t{tile} * 32 + lane] = static_cast<std::uint16_t>(before << 8 | static_cast<int>(ends_of_lane));
}

// ---- Work

// One thread for every chunk: its first sum, and the row in the middle of which it stops, or `num_rows`.
__global__ void describe_chunks_kernel(const panel_part* __restrict__ parts, int num_chunks,
                                       const int2* __restrict__ panels, const int2* __restrict__ tile_starts,
                                       int num_tiles, int num_sums, unsigned num_rows,
                                       std::int32_t* __restrict__ first_sums, std::uint32_t* __restrict__ open_rows,
                                       std::int32_t* __restrict__ chunks) {
  const int chunk = static_cast<int>(blockIdx.x * threads_per_block + threadIdx.x);
  if (chunk >= num_chunks) return;
  const panel_part part = parts[chunk / panel_warps];
  const int warp = chunk % panel_warps;
  const int begin = part.first_tile + part.num_tiles * warp / panel_warps;
  const int end = part.first_tile + part.num_tiles * (warp + 1) / panel_warps;
  first_sums[chunk] = begin < num_tiles ? tile_starts[begin].x : num_sums;
  // The last row of a panel is complete at its end.
  const bool inside = begin < end && end < panels[part.panel + 1].y;
  const int row = inside ? tile_starts[end].y : -1;
  open_rows[chunk] = row >= 0 ? static_cast<unsigned>(row) : num_rows;
  chunks[chunk] = chunk;
}

constexpr int gathering_threads = 1024;

// One thread block. `open_rows` are sorted; those below `num_rows` are cut.
__global__ void __launch_bounds__(gathering_threads)
    gather_cuts_kernel(const std::uint32_t* __restrict__ open_rows, int num_chunks, unsigned num_rows,
                       std::int32_t* __restrict__ cut_rows, std::int32_t* __restrict__ cut_ptr,
                       std::int32_t* __restrict__ num_cut_rows) {
  __shared__ int heads_of_warps[gathering_threads / 32];
  __shared__ int num_cut_chunks;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) num_cut_chunks = num_chunks;
  int before = 0;  // cut rows
  for (int first = 0; first < num_chunks; first += gathering_threads) {
    const int i = first + thread;
    const unsigned row = i < num_chunks ? open_rows[i] : num_rows;
    const bool starts = i == 0 || (i < num_chunks && open_rows[i - 1] != row);
    const bool head = row < num_rows && starts;
    const unsigned heads = ballot(head);
    __syncthreads();  // the counts of the chunks before are read
    if (lane_id() == 0) heads_of_warps[thread / 32] = __popc(heads);
    if (i < num_chunks && row == num_rows && starts) num_cut_chunks = i;
    __syncthreads();
    int cut = before + __popc(heads & ((1u << lane_id()) - 1));
    for (int warp = 0; warp < gathering_threads / 32; ++warp) {
      if (warp < thread / 32) cut += heads_of_warps[warp];
      before += heads_of_warps[warp];
    }
    if (head) {
      cut_rows[cut] = static_cast<std::int32_t>(row);
      cut_ptr[cut] = i;
    }
  }
  __syncthreads();
  if (thread > 0) return;
  cut_ptr[before] = num_cut_chunks;
  *num_cut_rows = before;
}

// One thread for every row block, and one past the end: how many cut rows are in the blocks before.
__global__ void count_cuts_kernel(const std::int32_t* __restrict__ cut_rows,
                                  const std::int32_t* __restrict__ num_cut_rows, std::int64_t num_row_blocks,
                                  std::int32_t* __restrict__ block_cuts) {
  const std::int64_t block = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (block > num_row_blocks) return;
  int low = 0;
  for (int high = *num_cut_rows; low < high;) {
    const int middle = (low + high) / 2;
    if (cut_rows[middle] < block * rows_per_mask) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  block_cuts[block] = low;
}

// Calls function(Word{}) for the unsigned type of the size of a value.
template <class Function>
void dispatch_word(value_type dtype, Function&& function) {
  switch (size_of(dtype)) {
    case 2:
      return function(std::uint16_t{});
    case 4:
      return function(std::uint32_t{});
    default:
      return function(static_cast<unsigned long long>(0));
  }
}

}  // namespace

struct device_column_panels::sorted_nonzeros {
  key_layout layout;
  pooled_memory keys;
  pooled_memory payloads;
  pooled_memory masks;       // [panel][row block], and a zero
  pooled_memory first_sums;  // likewise, and the number of sums
};

device_column_panels::device_column_panels(const device_csr& matrix, int panel_columns, column_numbers numbers,
                                           const device_allocator& allocate)
    : num_rows_(matrix.num_rows()),
      num_cols_(matrix.num_cols()),
      nnz_(matrix.nnz()),
      dtype_(matrix.dtype()),
      panel_columns_(panel_columns),
      numbers_(numbers),
      panel_ptr_((num_cols_ + panel_columns - 1) / panel_columns + 1),
      stream_(matrix.stream()) {
  row_blocks_ = {static_cast<std::size_t>(num_row_blocks() * num_panels()), allocate};
  const sorted_nonzeros sorted = sort_by_panel(matrix);
  if (row_blocks_.size() > 0) {
    pair_row_blocks_kernel<<<blocks_for(static_cast<std::int64_t>(row_blocks_.size())), threads_per_block, 0,
                             stream_>>>(sorted.first_sums.as<const std::int32_t>(),
                                        sorted.masks.as<const std::uint32_t>(), num_row_blocks(), num_panels(),
                                        row_blocks_.data());
    check_launch("pair_row_blocks_kernel");
  }
  if (nnz_ == 0) return;
  read_sizes(sorted);
  const auto places = static_cast<std::size_t>(panel_ptr_.back());
  columns_ = {places, allocate};
  values_ = {places * size_of(dtype_), allocate};
  lanes_ = {places / places_per_lane, allocate};
  fill(matrix, sorted);
}

device_column_panels::sorted_nonzeros device_column_panels::sort_by_panel(const device_csr& matrix) {
  const key_layout layout{static_cast<unsigned>(panel_columns_),
                          bits_for(static_cast<std::uint64_t>(std::max<std::int64_t>(1, num_panels()) - 1)), numbers_};
  if (layout.panel_bits + bits_for(static_cast<std::uint64_t>(panel_columns_ - 1)) > 32) {
    throw error(error_kind::parameter, "panel_columns", -1,
                "column panels are not made on a GPU if there are " + std::to_string(num_panels()) + " of them");
  }
  const std::size_t counts = row_blocks_.size() + 1;
  sorted_nonzeros sorted{layout, pooled_memory(nnz_ * sizeof(std::uint32_t), stream_),
                         pooled_memory(nnz_ * sizeof(std::uint64_t), stream_),
                         pooled_memory(counts * sizeof(std::uint32_t), stream_),
                         pooled_memory(counts * sizeof(std::int32_t), stream_)};
  fill_device(sorted.masks.data(), 0, counts * sizeof(std::uint32_t), stream_);
  if (nnz_ > 0) {
    const pooled_memory keys(nnz_ * sizeof(std::uint32_t), stream_);
    const pooled_memory payloads(nnz_ * sizeof(std::uint64_t), stream_);
    const unsigned share = nnz_per_warp(nnz_);
    dispatch_word(dtype_, [&]<class Word>(Word) {
      const auto panels = static_cast<unsigned>(num_panels());
      const auto kernel =
          panels <= most_collected_panels ? key_nonzeros_kernel<Word, true> : key_nonzeros_kernel<Word, false>;
      kernel<<<blocks_for((nnz_ + share - 1) / share * 32), threads_per_block, 0, stream_>>>(
          matrix.indptr32(), matrix.indices(), matrix.values<Word>(), static_cast<int>(num_rows_),
          static_cast<unsigned>(nnz_), share, layout, panels, num_row_blocks(), keys.as<std::uint32_t>(),
          payloads.as<std::uint64_t>(), sorted.masks.as<std::uint32_t>());
    });
    check_launch("key_nonzeros_kernel");
    sort_pairs(keys.as<const std::uint32_t>(), sorted.keys.as<std::uint32_t>(), payloads.as<const std::uint64_t>(),
               sorted.payloads.as<std::uint64_t>(), nnz_, layout.panel_bits, stream_);
  }
  exclusive_scan_of_bits(sorted.masks.as<const std::uint32_t>(), sorted.first_sums.as<std::int32_t>(),
                         static_cast<std::int64_t>(counts), stream_);
  return sorted;
}

void device_column_panels::read_sizes(const sorted_nonzeros& sorted) {
  const auto panels = static_cast<std::size_t>(num_panels());
  const pooled_memory starts((panels + 2) * sizeof(std::int32_t), stream_);
  find_panels_kernel<<<blocks_for(static_cast<std::int64_t>(panels) + 1), threads_per_block, 0, stream_>>>(
      sorted.keys.as<const std::uint32_t>(), static_cast<unsigned>(nnz_), sorted.layout, static_cast<unsigned>(panels),
      sorted.first_sums.as<const std::int32_t>() + row_blocks_.size(), starts.as<std::int32_t>());
  check_launch("find_panels_kernel");
  std::vector<std::int32_t> found(panels + 2);
  copy_to_host(found.data(), starts.data(), found.size() * sizeof(found[0]), stream_);
  num_sums_ = found[panels + 1];
  std::vector<int2> pairs(panels + 1);
  for (std::size_t p = 0; p <= panels; ++p) {
    if (p > 0) {
      const std::int64_t tiles = (std::int64_t{found[p]} - found[p - 1] + panel_tile - 1) / panel_tile;
      panel_ptr_[p] = panel_ptr_[p - 1] + tiles * panel_tile;
    }
    pairs[p] = {found[p], static_cast<int>(panel_ptr_[p] / panel_tile)};
  }
  panels_ = {pairs.size(), pooled_allocator(stream_)};
  copy_to_device(panels_.data(), pairs.data(), panels_.bytes(), stream_);
}

void device_column_panels::fill(const device_csr& matrix, const sorted_nonzeros& sorted) {
  tile_starts_ = {static_cast<std::size_t>(num_tiles()), pooled_allocator(stream_)};
  dispatch_word(dtype_, [&]<class Word>(Word) {
    const fill_task<Word> task{sorted.layout,
                               static_cast<int>(num_panels()),
                               static_cast<int>(num_tiles()),
                               panels_.data(),
                               sorted.keys.as<const std::uint32_t>(),
                               sorted.payloads.as<const std::uint64_t>(),
                               matrix.values<Word>(),
                               row_blocks_.data(),
                               columns_.data(),
                               reinterpret_cast<Word*>(values_.data()),
                               lanes_.data(),
                               tile_starts_.data()};
    fill_tiles_kernel<<<blocks_for(num_tiles() * 32), threads_per_block, 0, stream_>>>(task);
  });
  check_launch("fill_tiles_kernel");
}

device_panel_work device_column_panels::plan_work(const device_array<panel_part>& parts,
                                                  const device_allocator& allocate) {
  device_panel_work work;
  work.block_cuts = {static_cast<std::size_t>(num_row_blocks()) + 1, allocate};
  const std::size_t num_chunks = parts.size() * panel_warps;
  if (num_chunks == 0) {
    fill_device(work.block_cuts.data(), 0, work.block_cuts.bytes(), stream_);
    return work;
  }
  work.first_sums = {num_chunks, allocate};
  work.cut_rows = {num_chunks, allocate};
  work.cut_ptr = {num_chunks + 1, allocate};
  work.cut_chunks = {num_chunks, allocate};
  const pooled_memory open_rows(num_chunks * sizeof(std::uint32_t), stream_);
  const pooled_memory sorted_rows(num_chunks * sizeof(std::uint32_t), stream_);
  const pooled_memory chunks(num_chunks * sizeof(std::int32_t), stream_);
  const pooled_memory num_cut_rows(sizeof(std::int32_t), stream_);
  const auto rows = static_cast<unsigned>(num_rows_);
  const auto count = static_cast<int>(num_chunks);
  describe_chunks_kernel<<<blocks_for(count), threads_per_block, 0, stream_>>>(
      parts.data(), count, panels_.data(), tile_starts_.data(), static_cast<int>(num_tiles()),
      static_cast<int>(num_sums_), rows, work.first_sums.data(), open_rows.as<std::uint32_t>(),
      chunks.as<std::int32_t>());
  check_launch("describe_chunks_kernel");
  // Chunks are numbered by panel: a row's carries are added in the order of its panels.
  sort_pairs(open_rows.as<const std::uint32_t>(), sorted_rows.as<std::uint32_t>(), chunks.as<const std::int32_t>(),
             work.cut_chunks.data(), count, bits_for(rows), stream_);
  gather_cuts_kernel<<<1, gathering_threads, 0, stream_>>>(sorted_rows.as<const std::uint32_t>(), count, rows,
                                                           work.cut_rows.data(), work.cut_ptr.data(),
                                                           num_cut_rows.as<std::int32_t>());
  check_launch("gather_cuts_kernel");
  count_cuts_kernel<<<blocks_for(num_row_blocks() + 1), threads_per_block, 0, stream_>>>(
      work.cut_rows.data(), num_cut_rows.as<const std::int32_t>(), num_row_blocks(), work.block_cuts.data());
  check_launch("count_cuts_kernel");
  panels_ = {};
  tile_starts_ = {};
  return work;
}

column_panels_matrix device_column_panels::download() const {
  column_panels_matrix result;
  result.num_rows = num_rows_;
  result.num_cols = num_cols_;
  result.dtype = dtype_;
  result.panel_columns = panel_columns_;
  result.num_nonzeros = nnz_;
  result.panel_ptr = panel_ptr_;
  result.num_sums = num_sums_;
  result.columns.resize(columns_.size());
  copy_to_host(result.columns.data(), columns_.data(), columns_.bytes(), stream_);
  std::vector<std::uint16_t> lanes(lanes_.size());
  copy_to_host(lanes.data(), lanes_.data(), lanes_.bytes(), stream_);
  for (const std::uint16_t lane : lanes) result.row_ends.push_back(static_cast<std::uint8_t>(lane));
  std::vector<int2> pairs(row_blocks_.size());
  copy_to_host(pairs.data(), row_blocks_.data(), row_blocks_.bytes(), stream_);
  for (const int2& pair : pairs) {
    result.first_sums.push_back(pair.x);
    result.row_masks.push_back(static_cast<std::uint32_t>(pair.y));
  }
  std::vector<std::byte> values(values_.size());
  copy_to_host(values.data(), values_.data(), values_.bytes(), stream_);
  result.data.resize(values.size());
  dispatch_word(dtype_, [&]<class Word>(Word) {
    for (std::int64_t place = 0; place < result.places(); ++place) {
      const std::int64_t tile = place / panel_tile;
      const std::int64_t from = tile * panel_tile + interleaved<Word>(static_cast<int>(place % panel_tile));
      std::memcpy(result.data.data() + place * sizeof(Word), values.data() + from * sizeof(Word), sizeof(Word));
    }
  });
  return result;
}

}  // namespace warploom::cuda

namespace warploom {

std::unique_ptr<stored_matrix> column_panels_on_gpu(const device_csr& matrix, const option_values& options) {
  const int panel_columns = options.integer("panel_columns");
  check_panel_columns(panel_columns);
  const cuda::device_column_panels panels(matrix, panel_columns, cuda::column_numbers::in_panel,
                                          allocate_device_memory);
  return stored(panels.download());
}

}  // namespace warploom
