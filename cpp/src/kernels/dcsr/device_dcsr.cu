#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/dcsr/device_dcsr.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;

template <class Offset>
__global__ void mark_rows_kernel(const Offset* __restrict__ indptr, std::int64_t num_rows,
                                 std::uint8_t* __restrict__ nonempty, std::uint8_t* __restrict__ empty) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (row >= num_rows) return;
  const bool holds = indptr[row + 1] > indptr[row];
  nonempty[row] = holds;
  if (empty != nullptr) empty[row] = !holds;
}

// Rows without nonzeros between two stored ones do not change the offsets.
template <class Offset>
__global__ void gather_offsets_kernel(const Offset* __restrict__ indptr, std::int64_t num_rows,
                                      const std::int32_t* __restrict__ positions, std::int64_t count,
                                      Offset* __restrict__ gathered) {
  const std::int64_t p = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (p <= count) gathered[p] = indptr[p < count ? positions[p] : num_rows];
}

__global__ void rename_rows_kernel(const std::int32_t* __restrict__ names, std::int64_t count,
                                   std::int32_t* __restrict__ rows) {
  const std::int64_t p = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (p < count) rows[p] = names[rows[p]];
}

void rename(const std::int32_t* names, const device_array<std::int32_t>& rows, cudaStream_t stream) {
  if (names == nullptr || rows.size() == 0) return;
  rename_rows_kernel<<<blocks_for(rows.size()), threads_per_block, 0, stream>>>(names, rows.size(), rows.data());
  check_launch("rename_rows_kernel");
}

}  // namespace

nonempty_rows::nonempty_rows(const device_csr& matrix, const std::int32_t* row_ids_of_matrix, bool list_empty_rows,
                             const device_allocator& allocate)
    : count(matrix.num_rows() - matrix.summary().empty_rows),
      row_ids(count, allocate),
      indptr32(matrix.wide() ? 0 : count + 1, allocate),
      indptr64(matrix.wide() ? count + 1 : 0, allocate),
      empty_rows(list_empty_rows ? matrix.summary().empty_rows : 0, allocate) {
  const cudaStream_t stream = matrix.stream();
  const std::int64_t num_rows = matrix.num_rows();
  const pooled_memory found(sizeof(std::int32_t), stream);
  const auto with_offsets = [&](const auto* offsets, auto* gathered) {
    if (num_rows > 0) {
      const pooled_memory nonempty(num_rows, stream);
      const pooled_memory empty(list_empty_rows ? num_rows : 0, stream);
      mark_rows_kernel<<<blocks_for(num_rows), threads_per_block, 0, stream>>>(
          offsets, num_rows, nonempty.as<std::uint8_t>(), empty.as<std::uint8_t>());
      check_launch("mark_rows_kernel");
      // The number of rows that are selected is known.
      if (count > 0) {
        select_positions(nonempty.as<std::uint8_t>(), row_ids.data(), found.as<std::int32_t>(), num_rows, stream);
      }
      if (empty_rows.size() > 0) {
        select_positions(empty.as<std::uint8_t>(), empty_rows.data(), found.as<std::int32_t>(), num_rows, stream);
      }
    }
    gather_offsets_kernel<<<blocks_for(count + 1), threads_per_block, 0, stream>>>(offsets, num_rows, row_ids.data(),
                                                                                   count, gathered);
    check_launch("gather_offsets_kernel");
  };
  matrix.wide() ? with_offsets(matrix.indptr64(), indptr64.data()) : with_offsets(matrix.indptr32(), indptr32.data());
  rename(row_ids_of_matrix, row_ids, stream);
  rename(row_ids_of_matrix, empty_rows, stream);
}

}  // namespace warploom::cuda
