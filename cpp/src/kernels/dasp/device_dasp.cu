// Conversion from CSR to DASP on the GPU. Rows are sorted by length with a stable radix sort; one scan over the sorted
// rows gives every offset; one kernel then writes all arrays. The host reads back four int4 to allocate them.
#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "kernels/dasp/device_dasp.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int warps_per_block = threads_per_block / 32;
constexpr int group_slots = 2 * dasp_block_slots;
constexpr int part_slots = dasp_part_groups * group_slots;
constexpr int filled_enough = dasp_block_slots * 3 / 4;  // a block with more entries is stored
constexpr int num_categories = 7;                        // long, medium, 4, 3, 2, 1, 0 entries

__device__ int category_of(int key, int max_length) { return key > max_length ? 0 : key > 4 ? 1 : 6 - key; }

// What is summed over the sorted rows: groups and parts of long rows, blocks of row blocks (counted at their first
// row) and irregular entries of medium rows.
struct add_counts {
  __host__ __device__ int4 operator()(const int4& a, const int4& b) const {
    return make_int4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
  }
};

// What the host reads back: totals, the first row of each category in sorted order, and the longest medium row.
struct summary {
  int4 totals;
  std::int32_t first[num_categories + 1];
  std::int32_t longest_medium;
  std::int32_t first_narrow;  // in sorted order
  std::int32_t unused[2];     // zeros: the whole is copied
};

__global__ void find_keys(int num_rows, const std::int32_t* indptr, int max_length, std::uint16_t* keys,
                          std::int32_t* rows) {
  const int row = blockIdx.x * threads_per_block + threadIdx.x;
  if (row >= num_rows) return;
  keys[row] = static_cast<std::uint16_t>(min(indptr[row + 1] - indptr[row], max_length + 1));
  rows[row] = row;
}

// One thread for each sorted row and one past the end.
__global__ void find_categories(int num_rows, const std::uint16_t* keys, int max_length, summary* found) {
  const std::int64_t p = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (p > num_rows) return;
  const int before = p == 0 ? -1 : category_of(keys[p - 1], max_length);
  const int here = p == num_rows ? num_categories : category_of(keys[p], max_length);
  for (int category = before + 1; category <= here; ++category) found->first[category] = static_cast<int>(p);
  if (p == 0) found->unused[0] = found->unused[1] = 0;
  const bool wide_before = p == 0 || keys[p - 1] > dasp_narrow_length;
  if (wide_before && (p == num_rows || keys[p] <= dasp_narrow_length)) found->first_narrow = static_cast<int>(p);
  if (before < 1 && here >= 1) found->longest_medium = here == 1 ? keys[p] : 0;
}

// Blocks of a row block that are filled enough; `keys` are the decreasing lengths of its rows.
__device__ int count_regular(const std::uint16_t* keys, int num_rows) {
  int length[dasp_block_rows];
#pragma unroll
  for (int i = 0; i < dasp_block_rows; ++i) length[i] = i < num_rows ? keys[i] : 0;
  int low = 0;  // blocks known to be filled enough
  int high = (length[0] + dasp_block_columns - 1) / dasp_block_columns;
  while (low < high) {
    const int middle = (low + high) / 2;
    int filled = 0;
#pragma unroll
    for (int i = 0; i < dasp_block_rows; ++i) {
      filled += min(max(length[i] - middle * dasp_block_columns, 0), dasp_block_columns);
    }
    if (filled > filled_enough) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void count_slots(int num_rows, const std::int32_t* indptr, const std::uint16_t* keys,
                            const std::int32_t* rows, const summary* found, int4* counts) {
  const std::int64_t p = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (p > num_rows) return;
  const int num_long = found->first[1];
  const int num_medium = found->first[2] - num_long;
  int4 count = make_int4(0, 0, 0, 0);
  if (p < num_long) {
    const int length = indptr[rows[p] + 1] - indptr[rows[p]];
    count.x = (length - 1) / group_slots + 1;
    count.y = (count.x + dasp_part_groups - 1) / dasp_part_groups;
  } else if (p < num_long + num_medium) {
    const int i = static_cast<int>(p) - num_long;
    const int first = i / dasp_block_rows * dasp_block_rows;
    const int blocks = count_regular(keys + num_long + first, min(dasp_block_rows, num_medium - first));
    if (i == first) count.z = blocks;
    count.w = max(0, keys[p] - blocks * dasp_block_columns);
  }
  counts[p] = count;
}

// Everything the kernel that writes the arrays reads and writes. Word has the size of a value.
template <class Word>
struct fill_task {
  dasp_sizes sizes;
  const std::int32_t* indptr;
  const std::int32_t* from_indices;
  const Word* from_data;
  const std::int32_t* rows;  // sorted
  const int4* offsets;       // [sorted row]: groups, parts, blocks and irregular entries before it
  std::int32_t* indices;
  Word* data;
  std::int32_t* row_ids;
  dasp_part* parts;
  std::int32_t* part_ptr;
  std::int32_t* block_ptr;
  std::int32_t* irregular_ptr;

  // Entry `from` of the CSR matrix, or padding.
  __device__ void put(std::int64_t slot, int from, bool there) const {
    indices[slot] = there ? __ldcs(from_indices + from) : -1;
    data[slot] = there ? __ldcs(from_data + from) : Word{};
  }
};

// The long row that a part belongs to.
__device__ int find_long_row(const int4* offsets, int num_long, int part) {
  int low = 0, high = num_long - 1;
  while (low < high) {  // the last row whose first part is not after `part`
    const int middle = (low + high + 1) / 2;
    if (offsets[middle].y <= part) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// One block for each part of a long row.
template <class Word>
__device__ void fill_part(const fill_task<Word>& task, int part) {
  const int p = find_long_row(task.offsets, task.sizes.num_long, part);
  const int4 before = task.offsets[p];
  const int4 after = task.offsets[p + 1];
  const int row = task.rows[p];
  const int begin = task.indptr[row];
  const int length = task.indptr[row + 1] - begin;
  const int first = (part - before.y) * dasp_part_groups;  // group within the row
  const int groups = min(dasp_part_groups, after.x - before.x - first);
  if (threadIdx.x == 0) {
    task.parts[part] = make_int4(2 * (before.x + first), 2 * groups, row, after.y - before.y > 1 ? p : -1);
  }
  const std::int64_t to = std::int64_t{before.x + first} * group_slots;
  const int entry = (part - before.y) * part_slots;
#pragma unroll 4
  for (int i = threadIdx.x; i < groups * group_slots; i += threads_per_block) {
    task.put(to + i, begin + entry + i, i < length - entry);
  }
}

// One warp for each row block.
template <class Word>
__device__ void fill_row_block(const fill_task<Word>& task, int row_block) {
  if (row_block >= task.sizes.num_row_blocks()) return;
  const int lane = threadIdx.x % 32;
  const int column = lane % dasp_block_columns;
  const int i = row_block * dasp_block_rows + lane / dasp_block_columns;
  const int first = task.sizes.num_long + row_block * dasp_block_rows;
  const int last = min(first + dasp_block_rows, task.sizes.num_long + task.sizes.num_medium);
  const int first_block = task.offsets[first].z;
  const int blocks = task.offsets[last].z - first_block;
  const bool there = i < task.sizes.num_medium;
  const int row = there ? task.rows[task.sizes.num_long + i] : 0;
  const int begin = there ? task.indptr[row] : 0;
  const int length = there ? task.indptr[row + 1] - begin : 0;
  const std::int64_t to = task.sizes.regular_begin() + std::int64_t{first_block} * dasp_block_slots + lane;
#pragma unroll 4
  for (int b = 0; b < blocks; ++b) {
    const int entry = b * dasp_block_columns + column;
    task.put(to + b * dasp_block_slots, begin + entry, entry < length);
  }
  const int regular = blocks * dasp_block_columns;
  const std::int64_t rest =
      task.sizes.irregular_begin() + (there ? task.offsets[task.sizes.num_long + i].w : 0) - regular;
  for (int entry = regular + column; entry < length; entry += dasp_block_columns) {
    task.put(rest + entry, begin + entry, true);
  }
}

// Where a short row goes: its place in the row ids and its first slot (-1 for empty rows).
struct short_place {
  std::int64_t row_id;
  std::int64_t slot;
};

__device__ short_place place_short_row(const dasp_sizes& sizes, int length, int k, int num_fours) {
  const std::int64_t combined = sizes.combined_begin();
  const std::int64_t ids = sizes.combined_rows();
  const std::int64_t pairs = sizes.num_pairs();
  if (length == 0) return {sizes.single_rows() + sizes.num_single + k, -1};
  if (length == 2) {
    const std::int64_t first = sizes.num_one_three;
    return {ids + 2 * first + k, combined + 4 * first + 2 * std::int64_t{k}};
  }
  if (length == 1 && k >= sizes.num_one_three) {
    const int single = k - sizes.num_one_three;
    return {sizes.single_rows() + single, sizes.single_begin() + single};
  }
  if (length == 4 || k >= sizes.num_one_three) {
    const int four = length == 4 ? k : num_fours + k - sizes.num_one_three;
    return {ids + 2 * pairs + four, combined + 4 * (pairs + four)};
  }
  const int second = length == 3 ? 1 : 0;
  return {ids + 2 * std::int64_t{k} + second, combined + 4 * std::int64_t{k} + second};
}

// The first slot and row id after the last pair of rows of two, when their number is odd.
template <class Word>
__device__ void pad_last_pair(const fill_task<Word>& task) {
  const dasp_sizes& sizes = task.sizes;
  task.row_ids[sizes.combined_rows() + 2 * std::int64_t{sizes.num_pairs()} - 1] = -1;
  const std::int64_t end = sizes.combined_begin() + 4 * std::int64_t{sizes.num_pairs()};
  task.put(end - 2, 0, false);
  task.put(end - 1, 0, false);
}

// One thread for each sorted row and one past the end: row ids, offsets, and the entries of short rows.
template <class Word>
__device__ void fill_row(const fill_task<Word>& task, const summary* found, std::int64_t p) {
  const dasp_sizes& sizes = task.sizes;
  if (p > sizes.num_rows) return;
  if (p <= sizes.num_long) task.part_ptr[p] = task.offsets[p].y;
  const std::int64_t i = p - sizes.num_long;
  if (i >= 0 && i <= sizes.num_medium) {
    task.irregular_ptr[i] = task.offsets[p].w;
    if (i % dasp_block_rows == 0) task.block_ptr[i / dasp_block_rows] = task.offsets[p].z;
    if (i == sizes.num_medium) task.block_ptr[sizes.num_row_blocks()] = task.offsets[p].z;
  }
  if (p == sizes.num_rows) {
    if (sizes.num_twos % 2 == 1) pad_last_pair(task);
    return;
  }
  const int row = task.rows[p];
  if (i < sizes.num_medium) {
    task.row_ids[p] = row;
    return;
  }
  const int begin = task.indptr[row];
  const int length = task.indptr[row + 1] - begin;
  const int num_fours = found->first[3] - found->first[2];
  const int k = static_cast<int>(p) - found->first[6 - length];
  const short_place place = place_short_row(sizes, length, k, num_fours);
  task.row_ids[place.row_id] = row;
  for (int entry = 0; entry < length; ++entry) task.put(place.slot + entry, begin + entry, true);
  if (length == 3 && k >= sizes.num_one_three) task.put(place.slot + 3, 0, false);
}

template <class Word>
__global__ void __launch_bounds__(threads_per_block)
    fill_dasp(const __grid_constant__ fill_task<Word> task, const summary* found) {
  unsigned block = blockIdx.x;
  const unsigned num_parts = task.sizes.num_parts;
  if (block < num_parts) return fill_part(task, block);
  block -= num_parts;
  const unsigned medium = (task.sizes.num_row_blocks() + warps_per_block - 1) / warps_per_block;
  if (block < medium) return fill_row_block(task, block * warps_per_block + threadIdx.x / 32);
  block -= medium;
  fill_row(task, found, std::int64_t{block} * threads_per_block + threadIdx.x);
}

template <class Word>
void launch_fill(const fill_task<Word>& task, const summary* found, cudaStream_t stream) {
  const std::int64_t medium = (task.sizes.num_row_blocks() + warps_per_block - 1) / warps_per_block;
  const std::int64_t blocks = task.sizes.num_parts + medium + blocks_for(std::int64_t{task.sizes.num_rows} + 1);
  fill_dasp<<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(task, found);
  check_launch("fill_dasp");
}

}  // namespace

// Memory that only the conversion needs.
struct device_dasp::scratch {
  device_array<std::uint16_t> keys, sorted_keys;
  device_array<std::int32_t> rows, sorted_rows;
  device_array<int4> counts;   // [rows + 1]
  device_array<int4> offsets;  // [rows], then the summary
  device_array<std::byte> temporary;
  std::size_t sort_bytes = 0;
  std::size_t scan_bytes = 0;
  int key_bits;

  scratch(std::int64_t num_rows, int max_length, const device_allocator& allocate)
      : keys(num_rows, allocate),
        sorted_keys(num_rows, allocate),
        rows(num_rows, allocate),
        sorted_rows(num_rows, allocate),
        counts(num_rows + 1, allocate),
        offsets(num_rows + sizeof(summary) / sizeof(int4), allocate),
        key_bits(std::bit_width(static_cast<unsigned>(max_length + 1))) {
    sort_bytes = sort(nullptr, 0, nullptr);
    scan_bytes = scan(nullptr, 0, nullptr);
    temporary = {std::max(sort_bytes, scan_bytes), allocate};
  }

  // The totals that the scan leaves behind the last row are the first member of the summary.
  summary* found() const { return reinterpret_cast<summary*>(offsets.data() + sorted_rows.size()); }

  void sort(cudaStream_t stream) const { sort(temporary.data(), sort_bytes, stream); }
  void scan(cudaStream_t stream) const { scan(temporary.data(), scan_bytes, stream); }

 private:
  // With memory = nullptr both only say how many bytes they need.
  std::size_t sort(void* memory, std::size_t bytes, cudaStream_t stream) const {
    WARPLOOM_CUDA_CHECK(cub::DeviceRadixSort::SortPairsDescending(memory, bytes, keys.data(), sorted_keys.data(),
                                                                  rows.data(), sorted_rows.data(),
                                                                  static_cast<int>(rows.size()), 0, key_bits, stream));
    return bytes;
  }
  std::size_t scan(void* memory, std::size_t bytes, cudaStream_t stream) const {
    WARPLOOM_CUDA_CHECK(cub::DeviceScan::ExclusiveScan(memory, bytes, counts.data(), offsets.data(), add_counts{},
                                                       int4{0, 0, 0, 0}, static_cast<std::int64_t>(counts.size()),
                                                       stream));
    return bytes;
  }
};

device_dasp::device_dasp(const device_csr& source, const product_request& request, const device_allocator& allocate)
    : resident_(source.shared_if_own()), allocate_(allocate), max_length_(request.parameters.at("max_length")) {
  const cudaStream_t stream = source.stream();
  const scratch work(source.num_rows(), max_length_, allocate);
  sort_and_count(source, work, stream);
  read_sizes(work, stream);
  indices_ = {static_cast<std::size_t>(sizes_.num_slots()), allocate};
  data_ = {sizes_.num_slots() * size_of(source.dtype()), allocate};
  row_ids_ = {static_cast<std::size_t>(sizes_.num_row_ids()), allocate};
  parts_ = {static_cast<std::size_t>(sizes_.num_parts), allocate};
  part_ptr_ = {static_cast<std::size_t>(sizes_.num_long) + 1, allocate};
  block_ptr_ = {static_cast<std::size_t>(sizes_.num_row_blocks()) + 1, allocate};
  irregular_ptr_ = {static_cast<std::size_t>(sizes_.num_medium) + 1, allocate};
  fill(source, work, stream);
  // Before the scratch memory is freed, and for runs on other streams.
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream));
}

void device_dasp::sort_and_count(const device_csr& source, const scratch& work, cudaStream_t stream) const {
  const int num_rows = static_cast<int>(source.num_rows());
  if (num_rows > 0) {
    find_keys<<<blocks_for(num_rows), threads_per_block, 0, stream>>>(num_rows, source.indptr32(), max_length_,
                                                                      work.keys.data(), work.rows.data());
    check_launch("find_keys");
    work.sort(stream);
  }
  const unsigned blocks = blocks_for(source.num_rows() + 1);
  find_categories<<<blocks, threads_per_block, 0, stream>>>(num_rows, work.sorted_keys.data(), max_length_,
                                                            work.found());
  check_launch("find_categories");
  count_slots<<<blocks, threads_per_block, 0, stream>>>(num_rows, source.indptr32(), work.sorted_keys.data(),
                                                        work.sorted_rows.data(), work.found(), work.counts.data());
  check_launch("count_slots");
  work.scan(stream);
}

void device_dasp::read_sizes(const scratch& work, cudaStream_t stream) {
  summary found;
  copy_to_host(&found, work.found(), sizeof(found), stream);
  const auto rows_of = [&](int category) { return found.first[category + 1] - found.first[category]; };
  const std::int32_t threes = rows_of(3);
  const std::int32_t ones = rows_of(5);
  sizes_.num_rows = found.first[num_categories];
  sizes_.num_long = rows_of(0);
  sizes_.num_medium = rows_of(1);
  sizes_.num_wide = found.first_narrow - sizes_.num_long;
  sizes_.longest_medium = found.longest_medium;
  sizes_.num_one_three = std::min(ones, threes) / dasp_block_rows * dasp_block_rows;
  sizes_.num_twos = rows_of(4);
  sizes_.num_four = rows_of(2) + threes - sizes_.num_one_three;
  sizes_.num_single = ones - sizes_.num_one_three;
  sizes_.num_empty = rows_of(6);
  sizes_.num_groups = found.totals.x;
  sizes_.num_parts = found.totals.y;
  sizes_.num_blocks = found.totals.z;
  sizes_.num_irregular = found.totals.w;
}

void device_dasp::fill(const device_csr& source, const scratch& work, cudaStream_t stream) const {
  const auto launch = [&]<class Word>(Word) {
    launch_fill(
        fill_task<Word>{sizes_, source.indptr32(), source.indices(), source.values<Word>(), work.sorted_rows.data(),
                        work.offsets.data(), indices_.data(), reinterpret_cast<Word*>(data_.data()), row_ids_.data(),
                        parts_.data(), part_ptr_.data(), block_ptr_.data(), irregular_ptr_.data()},
        work.found(), stream);
  };
  switch (size_of(source.dtype())) {
    case 2:
      return launch(std::uint16_t{});
    case 4:
      return launch(std::uint32_t{});
    default:
      return launch(static_cast<unsigned long long>(0));
  }
}

std::size_t device_dasp::bytes() const {
  return indices_.bytes() + data_.bytes() + row_ids_.bytes() + parts_.bytes() + part_ptr_.bytes() + block_ptr_.bytes() +
         irregular_ptr_.bytes();
}

std::vector<double> device_dasp::time_conversion(const timing_options& options) const {
  if (!resident_) return {};
  const scratch work(resident_->num_rows(), max_length_, allocate_);
  // The whole conversion on the GPU, into the same arrays. The sizes are known, so that the read-back is left out.
  return time_on_device(
      [&](CUstream_st* stream) {
        sort_and_count(*resident_, work, stream);
        fill(*resident_, work, stream);
      },
      options, nullptr);
}

}  // namespace warploom::cuda
