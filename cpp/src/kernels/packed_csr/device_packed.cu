// Conversion from CSR to packed-csr on the GPU.
//
// A thread block for each tile of rows packs the rows of the tile: prefix sums of their lanes tell where a warp that
// begins with a row ends, and jumping from warp to warp, each time twice as far, marks all rows that begin one. A scan
// over the tiles says where each of them begins, the host reads the sizes, and one kernel then moves the entries.
//
// Where rows are longer than a warp, other kernels come first: they list the cut rows by their numbers of warps and
// find the lanes that these leave free.
#include <algorithm>
#include <bit>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/packed_csr/device_packed.hpp"
#include "warploom/formats/format.hpp"

namespace warploom::cuda {
namespace {

constexpr int tile_threads = 1024;
constexpr int rows_per_thread = packed_rows_per_tile / tile_threads;
constexpr int threads_per_block = 256;
// Classes of cut rows: those of more than 8 warps, and of 8, 7, ..., 2.
constexpr int num_classes = packed_warps_per_block;

__host__ __device__ constexpr int warps_of_class(int c) { return packed_warps_per_block + 1 - c; }
__device__ int class_of(int warps) { return warps > packed_warps_per_block ? 0 : packed_warps_per_block + 1 - warps; }

// The rows, in lanes and warps.
struct row_shapes {
  std::int32_t num_rows;
  const std::int32_t* indptr;
  int entry_bits;  // a lane has 1 << entry_bits entries
  int lane_bits;   // a warp has 1 << lane_bits lanes

  __host__ __device__ int lanes_per_warp() const { return 1 << lane_bits; }
  __device__ int lanes_of_entries(std::int32_t entries) const {
    return static_cast<int>((static_cast<unsigned>(entries) + (1u << entry_bits) - 1) >> entry_bits);
  }
  // 0 behind the last row.
  __device__ int lanes_of(std::int64_t p) const {
    return p < num_rows ? lanes_of_entries(indptr[p + 1] - indptr[p]) : 0;
  }
  __device__ int warps_of_lanes(int lanes) const {
    return static_cast<int>((static_cast<unsigned>(lanes) + (1u << lane_bits) - 1) >> lane_bits);
  }
};

// What the host reads.
struct packed_sizes {
  std::int32_t tail_warps;  // behind the cut rows
  std::int32_t cut_warps;   // those of the cut rows, with all that lies between them
  std::int32_t num_pieces;
  std::int32_t num_partials;
  std::int32_t short_lanes;  // of the rows that are not cut; 0 if no row is
};

// ---- Scans

// The sum of `mine` over the threads before, and over all threads. Called by thread blocks of `tile_threads`.
template <class T>
__device__ T scan_block(T mine, T* warp_sums, T& total) {
  const unsigned warp = threadIdx.x / 32, lane = lane_id();
  T sum = mine;
  for (unsigned offset = 1; offset < 32; offset *= 2) {
    const T before = from_lane_before(sum, offset);
    if (lane >= offset) sum += before;
  }
  __syncthreads();  // the sums of a call before may still be read
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    T all = warp_sums[lane];
    for (unsigned offset = 1; offset < 32; offset *= 2) {
      const T before = from_lane_before(all, offset);
      if (lane >= offset) all += before;
    }
    warp_sums[lane] = all;
  }
  __syncthreads();
  total = warp_sums[31];
  return (warp == 0 ? T{0} : warp_sums[warp - 1]) + sum - mine;
}
static_assert(tile_threads == 32 * 32);

// counts[a * (tiles + 1) + t] becomes the sum over the tiles before t; the total stands behind the last tile. That of
// a = 0 is written to `first_total` too, unless it is null.
__global__ void __launch_bounds__(tile_threads)
    scan_tiles_kernel(std::int32_t* counts, std::int32_t tiles, std::int32_t* first_total) {
  __shared__ std::int32_t warp_sums[32];
  std::int32_t* const own = counts + std::int64_t{blockIdx.x} * (tiles + 1);
  std::int32_t before = 0;
  for (std::int32_t first = 0; first < tiles; first += tile_threads) {
    const std::int32_t t = first + static_cast<std::int32_t>(threadIdx.x);
    std::int32_t total;
    const std::int32_t sum = scan_block(t < tiles ? own[t] : 0, warp_sums, total);
    if (t < tiles) own[t] = before + sum;
    before += total;
  }
  if (threadIdx.x != 0) return;
  own[tiles] = before;
  if (blockIdx.x == 0 && first_total != nullptr) *first_total = before;
}

// The last i < size with sums[i] <= value, where sums[0] is.
template <class T>
__device__ std::int64_t find_last(const T* sums, std::int64_t size, T value) {
  std::int64_t low = 0, high = size - 1;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (sums[middle] <= value) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// ---- Cut rows

// Where the rows of each class are.
struct class_table {
  std::int32_t num_long;  // rows of more than 8 warps
  // Of the classes 1 .. 7, and the end. Rows count from the first one that is not long.
  std::int32_t first_row[num_classes + 1];
  std::int32_t first_block[num_classes + 1];
  std::int32_t first_piece[num_classes + 1];
  std::int32_t num_warps;  // to the end of the last row
};

struct cut_rows {
  std::int32_t tiles;
  std::int32_t* tile_counts;  // [num_classes + 1][tiles + 1]: rows of each class, and lanes of rows that are not cut
  std::int32_t* rows;         // those of the classes 1 .. 7
  std::uint32_t* long_warps;  // of the long rows, in their order; zeros behind them
  std::int32_t* long_rows;
  std::uint32_t* sorted_warps;  // by decreasing number of warps
  std::int32_t* sorted_rows;
  std::int32_t* long_block;  // the first one of each sorted row
  std::int32_t* long_piece;
  class_table* classes;
  std::int32_t* free_lanes;   // [warps]
  std::int64_t* free_before;  // [warps], those of earlier warps

  __device__ std::int32_t* counts_of(int c) const { return tile_counts + std::int64_t{c} * (tiles + 1); }
  __device__ const std::int32_t* lanes_before() const { return counts_of(num_classes); }
};

// Four classes in one number, for scans. A tile has at most 4,096 rows of a class.
struct class_counts {
  std::uint64_t low = 0;   // classes 0 to 3
  std::uint64_t high = 0;  // classes 4 to 7

  __device__ void count(int c) { (c < 4 ? low : high) += std::uint64_t{1} << 16 * (c % 4); }
  __device__ int of(int c) const { return static_cast<int>((c < 4 ? low : high) >> 16 * (c % 4) & 0xffff); }
};

__global__ void __launch_bounds__(tile_threads) count_cut_rows_kernel(const row_shapes shapes, const cut_rows cut) {
  __shared__ std::uint64_t warp_counts[32];
  __shared__ std::int32_t warp_lanes[32];
  const std::int64_t first = std::int64_t{blockIdx.x} * packed_rows_per_tile + threadIdx.x * rows_per_thread;
  class_counts mine, all;
  std::int32_t short_lanes = 0, all_lanes;
  for (int i = 0; i < rows_per_thread; ++i) {
    const int lanes = shapes.lanes_of(first + i);
    if (lanes > shapes.lanes_per_warp()) {
      mine.count(class_of(shapes.warps_of_lanes(lanes)));
    } else {
      short_lanes += lanes;
    }
  }
  scan_block(short_lanes, warp_lanes, all_lanes);
  if (__syncthreads_or(mine.low != 0 || mine.high != 0)) {
    scan_block(mine.low, warp_counts, all.low);
    scan_block(mine.high, warp_counts, all.high);
  }
  if (threadIdx.x < num_classes) cut.counts_of(threadIdx.x)[blockIdx.x] = all.of(threadIdx.x);
  if (threadIdx.x == num_classes) cut.counts_of(num_classes)[blockIdx.x] = all_lanes;
}

// Behind the scan over the tiles.
__global__ void __launch_bounds__(tile_threads) list_cut_rows_kernel(const row_shapes shapes, const cut_rows cut) {
  __shared__ std::uint64_t warp_counts[32];
  const std::int64_t first = std::int64_t{blockIdx.x} * packed_rows_per_tile + threadIdx.x * rows_per_thread;
  class_counts mine, total, before;
  int warps[rows_per_thread];
  for (int i = 0; i < rows_per_thread; ++i) {
    const int lanes = shapes.lanes_of(first + i);
    warps[i] = shapes.warps_of_lanes(lanes);
    if (warps[i] > 1) mine.count(class_of(warps[i]));
  }
  if (!__syncthreads_or(mine.low != 0 || mine.high != 0)) return;
  before.low = scan_block(mine.low, warp_counts, total.low);
  before.high = scan_block(mine.high, warp_counts, total.high);
  for (int i = 0; i < rows_per_thread; ++i) {
    if (warps[i] <= 1) continue;
    const int c = class_of(warps[i]);
    std::int32_t place = cut.counts_of(c)[blockIdx.x] + before.of(c);
    before.count(c);
    const auto row = static_cast<std::int32_t>(first + i);
    if (c == 0) {
      cut.long_warps[place] = warps[i];
      cut.long_rows[place] = row;
    } else {
      for (int earlier = 1; earlier < c; ++earlier) place += cut.counts_of(earlier)[cut.tiles];
      cut.rows[place] = row;
    }
  }
}

// One thread block: the places of the sorted long rows, and of the classes behind them.
__global__ void __launch_bounds__(tile_threads) place_cut_rows_kernel(const cut_rows cut, packed_sizes* sizes) {
  __shared__ std::int32_t warp_sums[32];
  const std::int32_t num_long = cut.counts_of(0)[cut.tiles];
  std::int32_t blocks_before = 0, pieces_before = 0;
  for (std::int32_t first = 0; first < num_long; first += tile_threads) {
    const std::int32_t i = first + static_cast<std::int32_t>(threadIdx.x);
    const std::int32_t warps = i < num_long ? static_cast<std::int32_t>(cut.sorted_warps[i]) : 0;
    const std::int32_t blocks = (warps + packed_warps_per_block - 1) / packed_warps_per_block;
    std::int32_t all_blocks, all_pieces;
    const std::int32_t block = blocks_before + scan_block(blocks, warp_sums, all_blocks);
    const std::int32_t piece = pieces_before + scan_block(warps, warp_sums, all_pieces);
    if (i < num_long) {
      cut.long_block[i] = block;
      cut.long_piece[i] = piece;
    }
    blocks_before += all_blocks;
    pieces_before += all_pieces;
  }
  if (threadIdx.x != 0) return;
  class_table table;
  table.num_long = num_long;
  table.num_warps = 0;
  if (num_long > 0) {
    const auto last = static_cast<std::int32_t>(cut.sorted_warps[num_long - 1]);
    const std::int32_t blocks = (last + packed_warps_per_block - 1) / packed_warps_per_block;
    table.num_warps = (blocks_before - blocks) * packed_warps_per_block + last;
  }
  std::int32_t row = 0, block = blocks_before, piece = pieces_before;
  table.first_row[0] = table.first_block[0] = table.first_piece[0] = 0;
  for (int c = 1; c < num_classes; ++c) {
    table.first_row[c] = row;
    table.first_block[c] = block;
    table.first_piece[c] = piece;
    const std::int32_t count = cut.counts_of(c)[cut.tiles];
    const std::int32_t warps = warps_of_class(c);
    const std::int32_t per_block = packed_warps_per_block / warps;
    if (count > 0) {
      const std::int32_t last = count - 1;
      table.num_warps = (block + last / per_block) * packed_warps_per_block + (last % per_block + 1) * warps;
    }
    row += count;
    block += (count + per_block - 1) / per_block;
    piece += count * warps;
  }
  table.first_row[num_classes] = row;
  table.first_block[num_classes] = block;
  table.first_piece[num_classes] = piece;
  *cut.classes = table;
  sizes->cut_warps = table.num_warps;
  sizes->num_pieces = piece;
  sizes->num_partials = blocks_before;
  sizes->short_lanes = cut.lanes_before()[cut.tiles];
}

// What a warp of the cut rows holds.
struct warp_segment {
  std::int32_t row = -1;  // none
  std::int32_t number;    // among the segments of the row
  std::int32_t warps;     // of the row
  std::int32_t first_piece;
  std::int32_t first_partial;
};

__device__ warp_segment find_segment(const cut_rows& cut, std::int32_t warp) {
  const class_table& table = *cut.classes;
  const std::int32_t block = warp / packed_warps_per_block;
  const std::int32_t warp_in_block = warp % packed_warps_per_block;
  warp_segment found;
  found.first_partial = table.first_block[1];
  if (block < table.first_block[1]) {
    const std::int64_t i = find_last(cut.long_block, table.num_long, block);
    found.first_partial = cut.long_block[i];  // one for each block
    found.number = warp - found.first_partial * packed_warps_per_block;
    found.warps = static_cast<std::int32_t>(cut.sorted_warps[i]);
    found.first_piece = cut.long_piece[i];
    if (found.number < found.warps) found.row = cut.sorted_rows[i];
    return found;
  }
  int c = 1;
  while (c < num_classes - 1 && table.first_block[c + 1] <= block) ++c;
  found.warps = warps_of_class(c);
  const std::int32_t per_block = packed_warps_per_block / found.warps;
  const std::int32_t slot = warp_in_block / found.warps;
  const std::int32_t i = (block - table.first_block[c]) * per_block + slot;
  found.number = warp_in_block % found.warps;
  found.first_piece = table.first_piece[c] + i * found.warps;
  const std::int32_t row = table.first_row[c] + i;
  if (slot < per_block && row < table.first_row[c + 1]) found.row = cut.rows[row];
  return found;
}

// One thread for each warp that the cut rows could take at most, and one more.
__global__ void __launch_bounds__(threads_per_block)
    find_free_lanes_kernel(const row_shapes shapes, const cut_rows cut, std::int64_t max_warps) {
  const std::int64_t warp = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (warp > max_warps) return;
  std::int32_t free = 0;
  if (warp < cut.classes->num_warps) {
    const warp_segment segment = find_segment(cut, static_cast<std::int32_t>(warp));
    free = shapes.lanes_per_warp();
    if (segment.row >= 0) {
      const bool last = segment.number + 1 == segment.warps;
      free = last ? segment.warps * shapes.lanes_per_warp() - shapes.lanes_of(segment.row) : 0;
    }
  }
  cut.free_lanes[warp] = free;
}

// ---- Places of the rows that are not cut

// Where a row is. Of a row without entries: its number among those of its tile.
class row_place {
 public:
  __device__ static row_place in_tile(unsigned lane, bool ends_warp) {
    return row_place(lane | (ends_warp ? ends_bit : 0));
  }
  __device__ static row_place in_free_lanes(std::uint64_t lane) { return row_place(lane | free_bit); }
  __device__ static row_place empty(unsigned number) { return row_place(number); }
  __device__ explicit row_place(std::uint64_t bits) : bits_(bits) {}

  __device__ std::uint64_t bits() const { return bits_; }
  __device__ std::int64_t lane() const {
    return static_cast<std::int64_t>(bits_ & ~(is_in_free_lanes() ? free_bit : ends_bit));
  }
  // The lanes behind it in its warp are free.
  __device__ bool ends_warp() const { return !is_in_free_lanes() && (bits_ & ends_bit) != 0; }
  __device__ bool is_in_free_lanes() const { return (bits_ & free_bit) != 0; }

 private:
  // Matrices without cut rows store the lower half only: a tile has at most 2^19 lanes.
  static constexpr std::uint64_t ends_bit = std::uint64_t{1} << 31;
  static constexpr std::uint64_t free_bit = std::uint64_t{1} << 63;

  std::uint64_t bits_;
};

// Finds the places of rows, one after another, that are laid over the free lanes.
class free_lane_walk {
 public:
  __device__ free_lane_walk(const row_shapes& shapes, const cut_rows& cut)
      : lane_bits_(shapes.lane_bits), num_warps_(cut.classes->num_warps), before_(cut.free_before) {}

  // Whether a row of `lanes` lanes that comes to lie at `lane` of the free ones is within a warp.
  __device__ bool place(std::int64_t lane, int lanes, std::uint64_t& place) {
    if (lane >= before_[num_warps_]) return false;
    if (lane >= end_) {
      warp_ += find_last(before_ + warp_, num_warps_ - warp_, lane);
      end_ = before_[warp_ + 1];
    }
    if (lane + lanes > end_) return false;
    place = static_cast<std::uint64_t>(((warp_ + 1) << lane_bits_) - (end_ - lane));
    return true;
  }

 private:
  int lane_bits_;
  std::int32_t num_warps_;
  const std::int64_t* before_;
  std::int64_t warp_ = 0;
  std::int64_t end_ = 0;  // of the free lanes of the warp
};

// A scan over one tile is not worth a launch: `counts` becomes what scan_tiles_kernel makes of it.
__device__ void count_in_tile(std::int32_t* counts, std::int32_t count, std::int32_t* total) {
  const bool only = gridDim.x == 1;
  counts[blockIdx.x] = only ? 0 : count;
  if (!only) return;
  counts[1] = count;
  if (total != nullptr) *total = count;
}

// One thread block for each tile. Place is std::uint32_t, or std::uint64_t if rows are cut. `total_warps` is written if
// there is only one.
template <class Place>
__global__ void __launch_bounds__(tile_threads)
    pack_rows_kernel(const row_shapes shapes, const cut_rows cut, bool some_empty, Place* __restrict__ places,
                     std::int32_t* __restrict__ tile_warps, std::int32_t* __restrict__ tile_empty,
                     std::int32_t* __restrict__ total_warps) {
  constexpr bool cuts = sizeof(Place) == 8;
  constexpr int size = packed_rows_per_tile;
  __shared__ std::int32_t before[size + 1];  // lanes of the rows before
  __shared__ std::uint16_t next[size + 1];   // the row that begins the warp behind one that begins with this row
  __shared__ std::uint8_t begins[size + 1];
  __shared__ std::int32_t warp_sums[32];
  const int own = static_cast<int>(threadIdx.x) * rows_per_thread;
  const std::int64_t first = std::int64_t{blockIdx.x} * size + own;

  int lanes[rows_per_thread];
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) lanes[i] = shapes.lanes_of(first + i);
  std::int32_t total;
  if (some_empty) {
    int count = 0;
#pragma unroll
    for (int i = 0; i < rows_per_thread; ++i) count += first + i < shapes.num_rows && lanes[i] == 0;
    int number = scan_block(count, warp_sums, total);
#pragma unroll
    for (int i = 0; i < rows_per_thread; ++i) {
      if (first + i < shapes.num_rows && lanes[i] == 0) places[first + i] = row_place::empty(number++).bits();
    }
    if (threadIdx.x == 0) count_in_tile(tile_empty, total, nullptr);
  }
  if constexpr (cuts) {  // from here on rows with a place count no lanes
    int sum = 0;
#pragma unroll
    for (int i = 0; i < rows_per_thread; ++i) {
      if (lanes[i] > shapes.lanes_per_warp()) lanes[i] = 0;
      sum += lanes[i];
    }
    free_lane_walk free(shapes, cut);
    std::int64_t lane = std::int64_t{cut.lanes_before()[blockIdx.x]} + scan_block(sum, warp_sums, total);
#pragma unroll
    for (int i = 0; i < rows_per_thread; ++i) {
      std::uint64_t place = 0;
      const int taken = lanes[i];
      if (taken > 0 && free.place(lane, taken, place)) {
        places[first + i] = row_place::in_free_lanes(place).bits();
        lanes[i] = 0;
      }
      lane += taken;
    }
  }

  int sum = 0;
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) sum += lanes[i];
  int lane = scan_block(sum, warp_sums, total);
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
    before[own + i] = lane;
    lane += lanes[i];
    begins[own + i] = own + i == 0;
  }
  if (threadIdx.x == tile_threads - 1) {
    before[size] = lane;
    next[size] = size;
    begins[size] = 0;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
    int low = own + i, high = size;  // the last row up to which all lanes fit into a warp
    const std::int32_t fits = before[low] + shapes.lanes_per_warp();
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (before[middle] <= fits) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    next[own + i] = static_cast<std::uint16_t>(low);
  }
  __syncthreads();
  // Two consecutive warps hold more lanes than one has.
  const int max_warps = (2 * total >> shapes.lane_bits) + 1;
  for (int reached = 1; reached < max_warps; reached *= 2) {
    int jump[rows_per_thread], twice[rows_per_thread];
    bool marked[rows_per_thread];
#pragma unroll
    for (int i = 0; i < rows_per_thread; ++i) {
      jump[i] = next[own + i];
      twice[i] = next[jump[i]];
      marked[i] = begins[own + i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < rows_per_thread; ++i) {
      if (marked[i]) begins[jump[i]] = 1;
      next[own + i] = static_cast<std::uint16_t>(twice[i]);
    }
    __syncthreads();
  }

  int count = 0;
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) count += begins[own + i];
  std::int32_t num_warps;
  int warp = scan_block(count, warp_sums, num_warps) - 1;
  std::uint16_t* const heads = next;  // of the warps, and the end
#pragma unroll
  for (int i = 0, at = warp; i < rows_per_thread; ++i) {
    if (begins[own + i]) heads[++at] = static_cast<std::uint16_t>(own + i);
  }
  if (threadIdx.x == 0) {
    heads[num_warps] = size;
    count_in_tile(tile_warps, total == 0 ? 0 : num_warps, total_warps);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
    warp += begins[own + i];
    if (lanes[i] == 0) continue;
    const int at = before[own + i];
    const int end = before[heads[warp + 1]];
    const unsigned place = (static_cast<unsigned>(warp) << shapes.lane_bits) + (at - before[heads[warp]]);
    places[first + i] = static_cast<Place>(row_place::in_tile(place, at + lanes[i] == end).bits());
  }
}

// ---- Filling

// What is read and written. Word has the size of a value.
template <class Word>
struct fill_task {
  row_shapes shapes;
  const std::int32_t* from_indices;
  const Word* from_data;
  const std::int32_t* row_ids;      // or null
  const std::uint32_t* places;      // of matrices without cut rows
  const std::uint64_t* cut_places;  // of the others
  const std::int32_t* tile_warps;
  const std::int32_t* tile_empty;  // null if no row is
  std::int64_t tail_lane;          // the first one behind the cut rows
  std::uint32_t* lanes;
  std::int32_t* indices;
  Word* data;
  packed_segment* pieces;
  std::int32_t* empty_rows;

  __device__ std::int32_t row_of(std::int64_t p) const {
    return row_ids != nullptr ? row_ids[p] : static_cast<std::int32_t>(p);
  }
};

// One warp for each of those of the cut rows. It also clears the lanes that rows may be laid over.
template <class Word>
__global__ void __launch_bounds__(threads_per_block)
    fill_cut_rows_kernel(const __grid_constant__ fill_task<Word> task, const __grid_constant__ cut_rows cut) {
  const std::int32_t warp = blockIdx.x * (threads_per_block / 32) + threadIdx.x / 32;
  if (warp >= cut.classes->num_warps) return;
  const auto lane = static_cast<int>(lane_id());
  const warp_segment segment = find_segment(cut, warp);
  const int lane_bits = task.shapes.lane_bits, entry_bits = task.shapes.entry_bits;
  const int entries_per_warp = 1 << (lane_bits + entry_bits);
  std::int32_t from = 0, count = 0, piece = 0;
  if (segment.row >= 0) {
    from = task.shapes.indptr[segment.row] + segment.number * entries_per_warp;
    count = min(task.shapes.indptr[segment.row + 1] - from, entries_per_warp);
    piece = segment.first_piece + segment.number;
    if (lane == 0) {
      const std::int32_t begin = warp - segment.number;
      const std::int32_t block = warp / packed_warps_per_block;
      const std::int32_t first_block = begin / packed_warps_per_block;
      const std::int32_t num_blocks = (segment.warps + packed_warps_per_block - 1) / packed_warps_per_block;
      const bool last = segment.number + 1 == segment.warps || (warp + 1) % packed_warps_per_block == 0;
      const std::int32_t first_warp = begin % packed_warps_per_block;  // 0 in rows of several blocks
      const auto place = static_cast<std::uint32_t>((block - first_block) * 256 + first_warp * 16 + (last ? 1 : 0));
      packed_segment made;
      made.row = task.row_of(segment.row);
      made.first_partial = segment.first_partial;
      made.num_blocks = num_blocks;
      made.place = place;
      task.pieces[piece] = made;
    }
  }
  const std::int64_t to = std::int64_t{warp} << (lane_bits + entry_bits);
  for (int j = lane; j < entries_per_warp; j += 32) {
    task.indices[to + j] = j < count ? __ldcs(task.from_indices + from + j) : -1;
    task.data[to + j] = j < count ? __ldcs(task.from_data + from + j) : Word{0};
  }
  for (int i = lane; i < 1 << lane_bits; i += 32) {
    const std::uint32_t meaning = (i == 0 ? packed_head : 0) | packed_cut | static_cast<std::uint32_t>(piece);
    task.lanes[(std::int64_t{warp} << lane_bits) + i] = i << entry_bits < count ? meaning : packed_filler;
  }
}

// 1 << group_bits threads for each row; each fills lanes of V entries. The last row of a warp clears the lanes behind.
template <int V, class Word>
__global__ void __launch_bounds__(threads_per_block)
    fill_rows_kernel(const __grid_constant__ fill_task<Word> task, int group_bits) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const std::int64_t p = thread >> group_bits;
  if (p >= task.shapes.num_rows) return;
  const int group = 1 << group_bits;
  const int mine = static_cast<int>(thread) & (group - 1);
  const std::int32_t from = task.shapes.indptr[p];
  const std::int32_t length = task.shapes.indptr[p + 1] - from;
  const int lanes_per_warp = task.shapes.lanes_per_warp();
  const int lanes = task.shapes.lanes_of_entries(length);
  if (lanes > lanes_per_warp) return;
  const row_place place(task.cut_places != nullptr ? task.cut_places[p] : std::uint64_t{task.places[p]});
  const std::int64_t tile = p / packed_rows_per_tile;
  const std::int32_t row = task.row_of(p);
  if (length == 0) {
    if (mine == 0) task.empty_rows[task.tile_empty[tile] + place.lane()] = row;
    return;
  }
  std::int64_t first = place.lane();
  if (!place.is_in_free_lanes()) first += task.tail_lane + std::int64_t{task.tile_warps[tile]} * lanes_per_warp;
  const int end = place.ends_warp() ? lanes_per_warp - static_cast<int>(first & (lanes_per_warp - 1)) : lanes;
  for (int i = mine; i < end; i += group) {
    vector<std::int32_t, V> columns;
    vector<Word, V> values;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const bool there = i * V + v < length;
      columns.lane[v] = there ? task.from_indices[from + i * V + v] : -1;
      values.lane[v] = there ? task.from_data[from + i * V + v] : Word{0};
    }
    task.lanes[first + i] = i < lanes ? (i == 0 ? packed_head : 0) | static_cast<std::uint32_t>(row) : packed_filler;
    *reinterpret_cast<vector<std::int32_t, V>*>(task.indices + (first + i) * V) = columns;
    *reinterpret_cast<vector<Word, V>*>(task.data + (first + i) * V) = values;
  }
}

// ---- On the host

// Parts of one piece of memory for a call. `take` is gone through twice: first it only adds up the sizes.
class parts {
 public:
  explicit parts(std::byte* memory) : memory_(memory) {}

  template <class T>
  void take(T*& array, std::int64_t size) {
    array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    constexpr std::size_t alignment = 256;
    bytes_ += (size * sizeof(T) + alignment - 1) / alignment * alignment;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

// Bounds of what is not known yet.
struct bounds {
  std::int64_t cut_rows = 0;
  std::int64_t long_rows = 0;
  std::int64_t cut_warps = 0;
  std::int64_t longest = 0;  // in warps

  bounds(const matrix_summary& matrix, std::int64_t entries_per_warp) {
    longest = (matrix.longest_row + entries_per_warp - 1) / entries_per_warp;
    if (longest <= 1) return;
    cut_rows = std::min(matrix.num_rows, matrix.nnz / (entries_per_warp + 1));
    // The last warp of a row holds one entry at least. A row of w warps takes no more than 2 * (w - 1), up to full
    // blocks at the end of each class.
    cut_warps = 2 * (matrix.nnz / entries_per_warp) + packed_warps_per_block * num_classes;
    if (longest <= packed_warps_per_block) return;
    long_rows = std::min(matrix.num_rows, matrix.nnz / (packed_warps_per_block * entries_per_warp + 1));
  }
};

// Memory that only the conversion needs.
struct scratch {
  std::int32_t* tile_warps;  // [tiles + 1]
  std::int32_t* tile_empty;  // [tiles + 1], behind tile_warps
  std::uint32_t* places;
  std::uint64_t* cut_places;
  cut_rows cut{};

  std::size_t assign(std::byte* memory, std::int64_t num_rows, std::int64_t tiles, const bounds& most) {
    parts of(memory);
    const bool cuts = most.cut_rows > 0;
    of.take(tile_warps, 2 * (tiles + 1));
    tile_empty = tile_warps + tiles + 1;
    of.take(places, cuts ? 0 : num_rows);
    of.take(cut_places, cuts ? num_rows : 0);
    if (!cuts) {
      cut_places = nullptr;
      return of.bytes();
    }
    cut.tiles = static_cast<std::int32_t>(tiles);
    of.take(cut.tile_counts, (num_classes + 1) * (tiles + 1));
    of.take(cut.rows, most.cut_rows);
    of.take(cut.long_warps, most.long_rows);
    of.take(cut.long_rows, most.long_rows);
    of.take(cut.sorted_warps, most.long_rows);
    of.take(cut.sorted_rows, most.long_rows);
    of.take(cut.long_block, most.long_rows);
    of.take(cut.long_piece, most.long_rows);
    of.take(cut.classes, 1);
    of.take(cut.free_lanes, most.cut_warps + 1);
    of.take(cut.free_before, most.cut_warps + 1);
    return of.bytes();
  }
};

void place_cut_rows(const row_shapes& shapes, const cut_rows& cut, const bounds& most, packed_sizes* sizes,
                    cudaStream_t stream) {
  count_cut_rows_kernel<<<cut.tiles, tile_threads, 0, stream>>>(shapes, cut);
  check_launch("count_cut_rows_kernel");
  scan_tiles_kernel<<<num_classes + 1, tile_threads, 0, stream>>>(cut.tile_counts, cut.tiles, nullptr);
  check_launch("scan_tiles_kernel");
  if (most.long_rows > 0) {
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(cut.long_warps, 0, most.long_rows * sizeof(std::uint32_t), stream));
    // The sort moves as many rows as there may be.
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(cut.long_rows, 0, most.long_rows * sizeof(std::int32_t), stream));
  }
  list_cut_rows_kernel<<<cut.tiles, tile_threads, 0, stream>>>(shapes, cut);
  check_launch("list_cut_rows_kernel");
  if (most.long_rows > 0) {
    sort_pairs_descending(cut.long_warps, cut.sorted_warps, cut.long_rows, cut.sorted_rows, most.long_rows,
                          bits_for(most.longest), stream);
  }
  place_cut_rows_kernel<<<1, tile_threads, 0, stream>>>(cut, sizes);
  check_launch("place_cut_rows_kernel");
  find_free_lanes_kernel<<<blocks_for(most.cut_warps + 1), threads_per_block, 0, stream>>>(shapes, cut, most.cut_warps);
  check_launch("find_free_lanes_kernel");
  exclusive_scan(cut.free_lanes, cut.free_before, most.cut_warps + 1, stream);
}

template <class Word>
void fill(const fill_task<Word>& task, const cut_rows& cut, const packed_sizes& sizes, const matrix_summary& matrix,
          cudaStream_t stream) {
  if (sizes.cut_warps > 0) {
    fill_cut_rows_kernel<<<blocks_for(std::int64_t{sizes.cut_warps} * 32), threads_per_block, 0, stream>>>(task, cut);
    check_launch("fill_cut_rows_kernel");
  }
  const std::int64_t filled_rows = std::max<std::int64_t>(matrix.num_rows - matrix.empty_rows, 1);
  const std::int64_t lanes = sizes.cut_warps > 0 ? sizes.short_lanes : matrix.nnz >> task.shapes.entry_bits;
  const auto lanes_per_row = std::clamp<std::int64_t>((lanes + filled_rows - 1) / filled_rows, 1, 32);
  const int group_bits = std::bit_width(static_cast<unsigned>(lanes_per_row - 1));
  dispatch_constant<1, 2, 4>(1 << task.shapes.entry_bits, [&](auto entries) {
    constexpr int V = entries;
    fill_rows_kernel<V><<<blocks_for(matrix.num_rows << group_bits), threads_per_block, 0, stream>>>(task, group_bits);
    check_launch("fill_rows_kernel");
  });
}

}  // namespace

device_packed::device_packed(const device_csr& matrix, const std::int32_t* row_ids, int entries_per_lane, int steps,
                             const device_allocator& allocate)
    : num_rows_(matrix.num_rows()),
      num_cols_(matrix.num_cols()),
      nnz_(matrix.nnz()),
      dtype_(matrix.dtype()),
      stream_(matrix.stream()),
      entries_per_lane_(entries_per_lane),
      steps_(steps) {
  check_packed(num_rows_, entries_per_lane, steps);
  if (num_rows_ == 0) return;
  const matrix_summary& summary = matrix.summary();
  const row_shapes shapes{static_cast<std::int32_t>(num_rows_), matrix.indptr32(),
                          std::countr_zero(static_cast<unsigned>(entries_per_lane)),
                          std::countr_zero(static_cast<unsigned>(lanes_per_warp()))};
  const std::int64_t tiles = (num_rows_ + packed_rows_per_tile - 1) / packed_rows_per_tile;
  const bounds most(summary, lanes_per_warp() * entries_per_lane);
  const bool cuts = most.cut_rows > 0;
  const bool some_empty = summary.empty_rows > 0;
  scratch work{};
  const pooled_memory memory(work.assign(nullptr, num_rows_, tiles, most), stream_);
  work.assign(memory.data(), num_rows_, tiles, most);
  const pinned_memory read_by_host;
  auto* const sizes = read_by_host.as<packed_sizes>();
  *sizes = {};

  if (cuts) place_cut_rows(shapes, work.cut, most, sizes, stream_);
  const auto blocks = static_cast<unsigned>(tiles);
  if (cuts) {
    pack_rows_kernel<<<blocks, tile_threads, 0, stream_>>>(shapes, work.cut, some_empty, work.cut_places,
                                                           work.tile_warps, work.tile_empty, &sizes->tail_warps);
  } else {
    pack_rows_kernel<<<blocks, tile_threads, 0, stream_>>>(shapes, work.cut, some_empty, work.places, work.tile_warps,
                                                           work.tile_empty, &sizes->tail_warps);
  }
  check_launch("pack_rows_kernel");
  if (tiles > 1) {
    scan_tiles_kernel<<<some_empty ? 2 : 1, tile_threads, 0, stream_>>>(
        work.tile_warps, static_cast<std::int32_t>(tiles), &sizes->tail_warps);
    check_launch("scan_tiles_kernel");
  }
  synchronize(stream_);

  const std::size_t num_lanes = (std::int64_t{sizes->cut_warps} + sizes->tail_warps) * lanes_per_warp();
  num_partials_ = sizes->num_partials;
  const std::size_t num_places = num_lanes * entries_per_lane;
  const std::size_t num_pieces = sizes->num_pieces, num_empty = summary.empty_rows;
  shared_allocation kept(num_lanes * sizeof(std::uint32_t) + num_places * (sizeof(std::int32_t) + size_of(dtype_)) +
                             num_pieces * sizeof(packed_segment) + num_empty * sizeof(std::int32_t),
                         5, allocate);
  lanes_ = kept.take<std::uint32_t>(num_lanes);
  indices_ = kept.take<std::int32_t>(num_places);
  data_ = kept.take<std::byte>(num_places * size_of(dtype_));
  pieces_ = kept.take<packed_segment>(num_pieces);
  empty_rows_ = kept.take<std::int32_t>(num_empty);
  const auto fill_as = [&]<class Word>(Word) {
    const fill_task<Word> task{shapes,          matrix.indices(),  matrix.values<Word>(),
                               row_ids,         work.places,       work.cut_places,
                               work.tile_warps, work.tile_empty,   std::int64_t{sizes->cut_warps} * lanes_per_warp(),
                               lanes_.data(),   indices_.data(),   reinterpret_cast<Word*>(data_.data()),
                               pieces_.data(),  empty_rows_.data()};
    fill(task, work.cut, *sizes, summary, stream_);
  };
  // Values are only moved.
  const std::size_t value_size = size_of(dtype_);
  if (value_size == 2) fill_as(std::uint16_t{});
  if (value_size == 4) fill_as(std::uint32_t{});
  if (value_size == 8) fill_as(static_cast<unsigned long long>(0));
}

packed_csr device_packed::download() const {
  packed_csr result;
  result.num_rows = num_rows_;
  result.num_cols = num_cols_;
  result.dtype = dtype_;
  result.num_entries = nnz_;
  result.entries_per_lane = entries_per_lane_;
  result.steps = steps_;
  result.num_partials = num_partials_;
  const auto copy = [&](auto& to, const auto& from) {
    to.resize(from.size());
    copy_to_host(to.data(), from.data(), from.bytes(), stream_);
  };
  copy(result.lanes, lanes_);
  copy(result.indices, indices_);
  copy(result.data, data_);
  copy(result.pieces, pieces_);
  copy(result.empty_rows, empty_rows_);
  return result;
}

}  // namespace warploom::cuda

namespace warploom {

std::unique_ptr<stored_matrix> convert_to_packed_csr_on_gpu(const device_csr& matrix, const option_values& options) {
  return stored(cuda::device_packed(matrix, nullptr, options.integer("entries_per_lane"), options.integer("steps"),
                                    allocate_device_memory)
                    .download());
}

}  // namespace warploom
