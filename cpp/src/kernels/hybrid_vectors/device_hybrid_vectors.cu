// Conversion from CSR to hybrid-vectors on the GPU. Every nonzero finds out by itself whether it is the first of its
// column vector, as for the features of column vectors; a scan over windows tells where the rows of each go; and the
// rows of both parts are copied, of which those of windows then become BSR with blocks of 8 x 1. The host reads back
// how many there are, and whether the columns of some row descend: then all are sorted and counted again.
#include <algorithm>
#include <vector>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "features/column_vectors.hpp"
#include "features/device_boundary.hpp"
#include "kernels/bsr/device_bsr.hpp"
#include "kernels/device/nonzeros.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/hybrid_vectors/device_hybrid_vectors.hpp"
#include "kernels/hybrid_vectors/hybrid_vectors.hpp"
#include "warploom/device.hpp"
#include "warploom/formats/format.hpp"

namespace warploom {
namespace cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int log2_window_rows = 3;
static_assert(column_vector.rows == 1 << log2_window_rows);

struct window_counts {
  std::uint32_t* vectors;  // of each window
  std::uint8_t* repeats;   // 1: a row of the window has two entries of one column
  std::int32_t* unsorted;  // 1: the columns of some row descend
};

// Whether no row of the window before `row` has the column of nonzero j, and no entry of the row before it.
__device__ __forceinline__ bool is_first_of_vector(const std::int32_t* __restrict__ indptr,
                                                   const std::int32_t* __restrict__ indices, int row, int j) {
  const int begin = indptr[row];
  const std::int32_t column = indices[j];
  if (j > begin && indices[j - 1] == column) return false;
  const float along = static_cast<float>(j - begin) / static_cast<float>(indptr[row + 1] - begin);
  const int first = row >> log2_window_rows << log2_window_rows;
  for (int other = row - 1; other >= first; --other) {
    if (row_has_column(indptr, indices, other, along, column)) return false;
  }
  return true;
}

__global__ void __launch_bounds__(threads_per_block)
    count_window_vectors_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ indices,
                                int num_rows, unsigned nnz, unsigned nnz_of_warp, const window_counts counts) {
  const unsigned warp = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  const unsigned first = min(warp * nnz_of_warp, nnz);
  for_each_nonzero(indptr, num_rows, first, min(first + nnz_of_warp, nnz), [&](unsigned place, int row, bool there) {
    const int j = static_cast<int>(place);
    const int window = row >> log2_window_rows;
    bool is_first = false;
    if (there) {
      const bool follows = j > indptr[row];
      if (follows && indices[j - 1] > indices[j]) *counts.unsorted = 1;
      if (follows && indices[j - 1] == indices[j]) counts.repeats[window] = 1;
      is_first = is_first_of_vector(indptr, indices, row, j);
    }
    if (same_in_all_lanes(static_cast<unsigned long long>(window))) {
      const unsigned found = ballot(is_first);
      if (lane_id() == 0 && found != 0) atomicAdd(counts.vectors + window, static_cast<std::uint32_t>(__popc(found)));
    } else if (is_first) {
      atomicAdd(counts.vectors + window, 1u);
    }
  });
}

// One thread for each window and one past the end. x: rows of the window that are to be stored as vectors, all or none;
// y: their nonzeros; z: 1 for the first window if the columns of some row descend.
__global__ void choose_windows_kernel(const std::int32_t* __restrict__ indptr, std::int64_t num_rows,
                                      std::int64_t num_windows, int nonzeros_per_vector, const window_counts counts,
                                      int4* __restrict__ chosen) {
  const std::int64_t window = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (window > num_windows) return;
  int4 sizes = {0, 0, 0, 0};
  if (window < num_windows) {
    const std::int64_t first = window << log2_window_rows;
    const std::int64_t last = min(first + column_vector.rows, num_rows);
    const int nonzeros = indptr[last] - indptr[first];
    if (counts.repeats[window] == 0 && is_stored_as_vectors(counts.vectors[window], nonzeros, nonzeros_per_vector)) {
      sizes.x = static_cast<int>(last - first);
      sizes.y = nonzeros;
    }
    if (window == 0) sizes.z = *counts.unsorted;
  }
  chosen[window] = sizes;
}

// One thread for each row. before[w].x: rows of the windows before w that are stored as vectors.
__global__ void place_rows_kernel(const int4* __restrict__ before, std::int64_t num_rows,
                                  std::int32_t* __restrict__ vector_rows, std::int32_t* __restrict__ other_rows) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (row >= num_rows) return;
  const std::int64_t window = row >> log2_window_rows;
  const int stored = before[window].x;
  if (before[window + 1].x != stored) {
    vector_rows[stored + (row & (column_vector.rows - 1))] = static_cast<std::int32_t>(row);
  } else {
    other_rows[row - stored] = static_cast<std::int32_t>(row);
  }
}

// What becomes of each window, summed over those before it, with one more at the end: the totals, which are returned.
int4 choose_windows(const device_csr& matrix, const std::int32_t* indices, int nonzeros_per_vector, int4* before) {
  const cudaStream_t stream = matrix.stream();
  const std::int64_t windows = (matrix.num_rows() + column_vector.rows - 1) / column_vector.rows;
  const std::size_t count_bytes = (windows + 1) * sizeof(std::uint32_t);
  const pooled_memory memory(count_bytes + windows, stream);
  const window_counts counts{memory.as<std::uint32_t>() + 1, memory.as<std::uint8_t>() + count_bytes,
                             memory.as<std::int32_t>()};
  fill_device(memory.data(), 0, count_bytes + windows, stream);
  if (matrix.nnz() > 0) {
    const unsigned share = nnz_per_warp(matrix.nnz());
    count_window_vectors_kernel<<<blocks_for((matrix.nnz() + share - 1) / share * 32), threads_per_block, 0, stream>>>(
        matrix.indptr32(), indices, static_cast<int>(matrix.num_rows()), static_cast<unsigned>(matrix.nnz()), share,
        counts);
    check_launch("count_window_vectors_kernel");
  }
  const pooled_memory chosen((windows + 1) * sizeof(int4), stream);
  choose_windows_kernel<<<blocks_for(windows + 1), threads_per_block, 0, stream>>>(
      matrix.indptr32(), matrix.num_rows(), windows, nonzeros_per_vector, counts, chosen.as<int4>());
  check_launch("choose_windows_kernel");
  exclusive_scan(chosen.as<const int4>(), before, windows + 1, stream);
  return read_back(before + windows, stream);
}

device_permutation allocate_rows(std::int64_t count, const device_allocator& allocate) {
  const std::shared_ptr<void> rows = allocate(std::max<std::size_t>(count * sizeof(std::int32_t), 1));
  return {rows, static_cast<const std::int32_t*>(rows.get())};
}

std::vector<std::int32_t> download(const std::int32_t* rows, std::int64_t count, cudaStream_t stream) {
  std::vector<std::int32_t> downloaded(count);
  if (count > 0) copy_to_host(downloaded.data(), rows, count * sizeof(std::int32_t), stream);
  return downloaded;
}

}  // namespace

window_split split_windows(const device_csr& matrix, int nonzeros_per_vector, const device_allocator& allocate) {
  const cudaStream_t stream = matrix.stream();
  const std::int64_t num_rows = matrix.num_rows();
  const std::int64_t windows = (num_rows + column_vector.rows - 1) / column_vector.rows;
  const pooled_memory before((windows + 1) * sizeof(int4), stream);
  int4 totals = choose_windows(matrix, matrix.indices(), nonzeros_per_vector, before.as<int4>());
  if (totals.z != 0) {
    const pooled_memory sorted = sort_columns(arrays_of(matrix), matrix.nnz(), stream);
    totals = choose_windows(matrix, sorted.as<const std::int32_t>(), nonzeros_per_vector, before.as<int4>());
  }
  matrix_summary of_windows = matrix.summary();  // no row is longer in a part than in the whole, and none shorter
  of_windows.num_rows = totals.x;
  of_windows.nnz = totals.y;
  of_windows.empty_rows = std::min(of_windows.empty_rows, of_windows.num_rows);
  matrix_summary of_others = matrix.summary();
  of_others.num_rows = num_rows - totals.x;
  of_others.nnz = matrix.nnz() - totals.y;
  of_others.empty_rows = std::min(of_others.empty_rows, of_others.num_rows);

  window_split split;
  split.vector_rows = allocate_rows(of_windows.num_rows, allocate);
  split.other_rows = allocate_rows(of_others.num_rows, allocate);
  if (num_rows > 0) {
    place_rows_kernel<<<blocks_for(num_rows), threads_per_block, 0, stream>>>(
        before.as<const int4>(), num_rows, const_cast<std::int32_t*>(split.vector_rows.get()),
        const_cast<std::int32_t*>(split.other_rows.get()));
    check_launch("place_rows_kernel");
  }
  split.windows = take_rows(matrix, split.vector_rows.get(), of_windows, pooled_allocator(stream));
  split.others = take_rows(matrix, split.other_rows.get(), of_others, allocate);
  return split;
}

}  // namespace cuda

std::unique_ptr<stored_matrix> hybrid_vectors_on_gpu(const device_csr& matrix, const option_values& options) {
  const int nonzeros_per_vector = options.integer("nonzeros_per_vector");
  check_nonzeros_per_vector(nonzeros_per_vector);
  const cuda::window_split split = cuda::split_windows(matrix, nonzeros_per_vector, allocate_device_memory);
  const auto accept = [](const cuda::device_bsr::sizes&) {};
  hybrid_vectors result;
  result.num_rows = matrix.num_rows();
  result.num_cols = matrix.num_cols();
  result.dtype = matrix.dtype();
  result.nonzeros_per_vector = nonzeros_per_vector;
  result.vectors = cuda::device_bsr(*split.windows, column_vector, accept, allocate_device_memory).download();
  result.others = copy(split.others->host());
  const cudaStream_t stream = matrix.stream();
  result.vector_rows = cuda::download(split.vector_rows.get(), split.windows->num_rows(), stream);
  result.other_rows = cuda::download(split.other_rows.get(), split.others->num_rows(), stream);
  return stored(std::move(result));
}

}  // namespace warploom
