#include <limits>

#include "kernels/device/rows.cuh"
#include "kernels/padded_csr/device_padded.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int places_per_thread = 4;  // widths are multiples of it
constexpr std::int64_t most_unsigned = std::numeric_limits<unsigned>::max();

struct padding_task {
  std::int64_t num_groups;  // of places_per_thread places
  unsigned groups_per_row;
  offsets_view indptr;
  const std::int32_t* indices;
  int4* padded_indices;
};

// `Value` is any type of the size of the values.
template <class Value>
__global__ void __launch_bounds__(threads_per_block)
    pad_rows_kernel(const padding_task task, const Value* __restrict__ data, Value* __restrict__ padded_data) {
  const std::int64_t group = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (group >= task.num_groups) return;
  const std::int64_t row = task.num_groups <= most_unsigned ? static_cast<unsigned>(group) / task.groups_per_row
                                                            : group / task.groups_per_row;
  const std::int64_t within = (group - row * task.groups_per_row) * places_per_thread;
  const std::int64_t from = task.indptr[row] + within;
  const std::int64_t left = task.indptr[row + 1] - from;
  std::int32_t columns[places_per_thread];
  Value values[places_per_thread];
#pragma unroll
  for (int i = 0; i < places_per_thread; ++i) {
    columns[i] = i < left ? task.indices[from + i] : -1;
    values[i] = i < left ? data[from + i] : Value(0);
  }
  task.padded_indices[group] = {columns[0], columns[1], columns[2], columns[3]};
#pragma unroll
  for (int i = 0; i < places_per_thread; ++i) padded_data[group * places_per_thread + i] = values[i];
}

}  // namespace

device_padded::device_padded(const device_csr& matrix, std::shared_ptr<const std::int32_t> row_ids,
                             const device_allocator& allocate)
    : num_rows_(matrix.num_rows()),
      width_(static_cast<int>(padded_width(matrix.summary().longest_row))),
      row_ids_(std::move(row_ids)) {
  const std::size_t places = num_rows_ * width_;
  if (places == 0) return;
  const std::size_t data_bytes = places * size_of(matrix.dtype());
  shared_allocation kept(places * sizeof(std::int32_t) + data_bytes, 2, allocate);
  indices_ = kept.take<std::int32_t>(places);
  data_ = kept.take<std::byte>(data_bytes);
  const auto groups = static_cast<std::int64_t>(places) / places_per_thread;
  const void* const offsets =
      matrix.wide() ? static_cast<const void*>(matrix.indptr64()) : static_cast<const void*>(matrix.indptr32());
  const padding_task task{groups,
                          static_cast<unsigned>(width_ / places_per_thread),
                          {offsets, matrix.wide()},
                          matrix.indices(),
                          reinterpret_cast<int4*>(indices_.data())};
  const auto blocks = static_cast<unsigned>((groups + threads_per_block - 1) / threads_per_block);
  dispatch_bits(matrix.dtype(), [&](auto bits) {
    using word = decltype(bits);
    pad_rows_kernel<<<blocks, threads_per_block, 0, matrix.stream()>>>(task, matrix.values<word>(),
                                                                       reinterpret_cast<word*>(data_.data()));
  });
  check_launch("pad_rows_kernel");
}

}  // namespace warploom::cuda
