#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "device/algorithms.hpp"
#include "device/device_csr.hpp"
#include "device/host_transfer.hpp"
#include "device/workspace.hpp"
#include "features/device_boundary.hpp"
#include "kernels/device/nonzeros.cuh"
#include "kernels/device/warp.cuh"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;

matrix_summary summary_from(const row_statistics& found, value_type dtype) {
  const spmv_statistics& lengths = found.lengths;
  return {lengths.size.num_rows,
          lengths.size.num_cols,
          lengths.size.nnz,
          lengths.row_lengths.min(),
          lengths.row_lengths.max(),
          found.empty_rows,
          dtype};
}

// Small arrays are copied in one launch, which takes as long as copying one of them.
struct copied_arrays {
  struct array {
    const void* from;
    void* to;
    std::size_t bytes;  // even
  };
  array arrays[3];

  std::size_t bytes() const { return arrays[0].bytes + arrays[1].bytes + arrays[2].bytes; }
};

__global__ void __launch_bounds__(threads_per_block) copy_arrays_kernel(const __grid_constant__ copied_arrays all) {
  const std::size_t first = std::size_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const std::size_t stride = std::size_t{gridDim.x} * threads_per_block;
  for (const copied_arrays::array& array : all.arrays) {
    // Arrays of a framework may start anywhere.
    const auto places = reinterpret_cast<std::uintptr_t>(array.from) | reinterpret_cast<std::uintptr_t>(array.to);
    const std::size_t wide = places % sizeof(uint4) == 0 ? array.bytes / sizeof(uint4) : 0;
    for (std::size_t i = first; i < wide; i += stride) {
      static_cast<uint4*>(array.to)[i] = static_cast<const uint4*>(array.from)[i];
    }
    constexpr std::size_t halves = sizeof(uint4) / sizeof(std::uint16_t);
    for (std::size_t i = wide * halves + first; i < array.bytes / sizeof(std::uint16_t); i += stride) {
      static_cast<std::uint16_t*>(array.to)[i] = static_cast<const std::uint16_t*>(array.from)[i];
    }
  }
}

void copy_within_device(const copied_arrays& all, cudaStream_t stream) {
  constexpr std::size_t small = std::size_t{4} << 20;
  if (all.bytes() <= small) {
    const std::int64_t threads = static_cast<std::int64_t>(all.bytes() / sizeof(uint4)) + 1;
    copy_arrays_kernel<<<cuda::blocks_for(threads), threads_per_block, 0, stream>>>(all);
    return cuda::check_launch("copy_arrays_kernel");
  }
  for (const auto& [from, to, bytes] : all.arrays) {
    if (bytes > 0) WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
  }
}

// ---- Moving rows

__global__ void compose_kernel(const std::int32_t* outer, const std::int32_t* inner, unsigned size,
                               std::int32_t* composed) {
  const unsigned p = blockIdx.x * threads_per_block + threadIdx.x;
  if (p < size) composed[p] = outer[inner[p]];
}

__global__ void moved_lengths_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ row_ids,
                                     unsigned num_rows, std::int32_t* __restrict__ lengths) {
  const unsigned p = blockIdx.x * threads_per_block + threadIdx.x;
  if (p > num_rows) return;
  lengths[p] = p == num_rows ? 0 : indptr[row_ids[p] + 1] - indptr[row_ids[p]];
}

constexpr int threads_per_row = 8;

template <class Value>
__global__ void __launch_bounds__(threads_per_block)
    move_rows_kernel(const std::int32_t* __restrict__ from_indptr, const std::int32_t* __restrict__ from_indices,
                     const Value* __restrict__ from_data, const std::int32_t* __restrict__ row_ids,
                     std::int64_t num_rows, const std::int32_t* __restrict__ indptr, std::int32_t* __restrict__ indices,
                     Value* __restrict__ data) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const std::int64_t p = thread / threads_per_row;
  if (p >= num_rows) return;
  const std::int32_t from = from_indptr[row_ids[p]];
  const std::int32_t to = indptr[p];
  const std::int32_t length = indptr[p + 1] - to;
  for (std::int32_t j = static_cast<std::int32_t>(thread % threads_per_row); j < length; j += threads_per_row) {
    indices[to + j] = from_indices[from + j];
    data[to + j] = from_data[from + j];
  }
}

__global__ void __launch_bounds__(threads_per_block)
    row_indices_kernel(const std::int32_t* __restrict__ indptr, int num_rows, unsigned nnz, unsigned nnz_of_warp,
                       std::int32_t* __restrict__ rows) {
  const unsigned warp = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  const unsigned first = min(warp * nnz_of_warp, nnz);
  cuda::for_each_nonzero(indptr, num_rows, first, min(first + nnz_of_warp, nnz), [&](unsigned j, int row, bool there) {
    if (there) rows[j] = row;
  });
}

}  // namespace

device_csr::device_csr(const matrix_summary& summary, const device_allocator& allocate) : summary_(summary) {
  const std::size_t num_offsets = summary.num_rows + 1, nnz = summary.nnz;
  const std::size_t data_bytes = nnz * size_of(summary.dtype);
  cuda::shared_allocation memory((num_offsets + nnz) * sizeof(std::int32_t) + data_bytes, 3, allocate);
  own_indptr32_ = memory.take<std::int32_t>(num_offsets);
  own_indices_ = memory.take<std::int32_t>(nnz);
  own_data_ = memory.take<std::byte>(data_bytes);
  indptr32_ = own_indptr32_.data();
  indices_ = own_indices_.data();
  data_ = own_data_.data();
}

device_csr::device_csr(const device_csr& pattern, const device_allocator& allocate)
    : summary_(pattern.summary_),
      stream_(pattern.stream_),
      indptr32_(pattern.indptr32_),
      indptr64_(pattern.indptr64_),
      indices_(pattern.indices_),
      own_indptr32_(pattern.own_indptr32_),
      own_indptr64_(pattern.own_indptr64_),
      own_indices_(pattern.own_indices_),
      own_data_(pattern.nnz() * size_of(pattern.dtype()), allocate) {
  data_ = own_data_.data();
}

device_csr::device_csr(const csr_view& matrix, const device_allocator& allocate)
    : summary_{matrix.num_rows, matrix.num_cols, matrix.nnz()},
      own_indices_(matrix.nnz(), allocate),
      own_data_(matrix.nnz() * size_of(matrix.dtype), allocate),
      host_(std::make_unique<const csr_view>(matrix)) {
  const bool narrows = nnz() <= std::numeric_limits<std::int32_t>::max();
  if (narrows) {
    own_indptr32_ = cuda::device_array<std::int32_t>(num_rows() + 1, allocate);
  } else {
    own_indptr64_ = cuda::device_array<std::int64_t>(num_rows() + 1, allocate);
  }
  indptr32_ = own_indptr32_.data();
  indptr64_ = own_indptr64_.data();
  indices_ = own_indices_.data();
  data_ = own_data_.data();
  // Row offsets first: their statistics are computed while the rest is on its way.
  std::array<cuda::host_array, 3> arrays;
  arrays[0].from = matrix.indptr;
  arrays[0].to = narrows ? static_cast<void*>(own_indptr32_.data()) : static_cast<void*>(own_indptr64_.data());
  arrays[0].bytes = narrows ? own_indptr32_.bytes() : own_indptr64_.bytes();
  arrays[0].narrows = narrows;
  arrays[1] = {matrix.indices, own_indices_.data(), own_indices_.bytes()};
  arrays[2] = {matrix.data, own_data_.data(), own_data_.bytes()};
  std::optional<cuda::pending_row_statistics> pending;
  cuda::upload_arrays(arrays, nullptr, [&] { pending.emplace(arrays_of(*this), nullptr); });
  const row_statistics found = pending->read();
  summary_ = summary_from(found, matrix.dtype);
  statistics_ = std::make_unique<const spmv_statistics>(found.lengths);
}

device_csr::device_csr(const device_csr_view& matrix, const spmv_statistics& statistics, const matrix_summary& summary,
                       cuda::device_array<std::int32_t> narrow_indptr, cuda::device_array<std::int32_t> narrow_indices)
    : summary_(summary),
      stream_(matrix.stream),
      data_(matrix.data),
      borrows_(true),
      own_indptr32_(std::move(narrow_indptr)),
      own_indices_(std::move(narrow_indices)),
      statistics_(std::make_unique<const spmv_statistics>(statistics)) {
  indptr32_ = matrix.wide_indptr ? own_indptr32_.data() : static_cast<const std::int32_t*>(matrix.indptr);
  indices_ = matrix.wide_indices ? own_indices_.data() : static_cast<const std::int32_t*>(matrix.indices);
}

std::size_t device_csr::bytes() const {
  return own_indptr32_.bytes() + own_indptr64_.bytes() + own_indices_.bytes() + own_data_.bytes();
}

const spmv_statistics& device_csr::statistics() const {
  const std::lock_guard<std::mutex> lock(making_);
  if (!statistics_) {
    const row_statistics found = compute_cuda_row_statistics(arrays_of(*this), stream_);
    statistics_ = std::make_unique<const spmv_statistics>(found.lengths);
  }
  return *statistics_;
}

const csr_view& device_csr::host() const {
  const std::lock_guard<std::mutex> lock(making_);
  if (host_) return *host_;
  auto copy = std::make_unique<csr_matrix>();
  copy->num_rows = num_rows();
  copy->num_cols = num_cols();
  copy->dtype = dtype();
  copy->indptr = host_offsets();
  copy->indices.resize(nnz());
  copy->data.resize(nnz() * size_of(dtype()));
  copy_to_host(copy->indices.data(), indices_, copy->indices.size() * sizeof(copy->indices[0]), stream_);
  copy_to_host(copy->data.data(), data_, copy->data.size(), stream_);
  downloaded_ = std::move(copy);
  host_ = std::make_unique<const csr_view>(downloaded_->view());
  return *host_;
}

std::vector<std::int64_t> device_csr::host_offsets() const {
  std::vector<std::int64_t> offsets(num_rows() + 1);
  if (wide()) {
    copy_to_host(offsets.data(), indptr64_, offsets.size() * sizeof(offsets[0]), stream_);
    return offsets;
  }
  std::vector<std::int32_t> narrow(num_rows() + 1);
  copy_to_host(narrow.data(), indptr32_, narrow.size() * sizeof(narrow[0]), stream_);
  return {narrow.begin(), narrow.end()};
}

std::shared_ptr<const device_csr> device_csr::kept(const device_allocator& allocate) const {
  if (!borrows_) return shared_from_this();
  const std::lock_guard<std::mutex> lock(making_);
  if (kept_) return kept_;
  const auto copy = std::make_shared<device_csr>(summary_, allocate);
  copy->order_on(stream_);
  copy_within_device({{{indptr32_, copy->indptr_to_fill(), (num_rows() + 1) * sizeof(std::int32_t)},
                       {indices_, copy->indices_to_fill(), nnz() * sizeof(std::int32_t)},
                       {data_, copy->data_to_fill(), nnz() * size_of(dtype())}}},
                     stream_);
  return kept_ = copy;
}

std::shared_ptr<const device_csr> upload_csr(const csr_view& matrix, const device_allocator& allocate) {
  return std::make_shared<const device_csr>(matrix, allocate);
}

std::size_t device_csr_bytes(const device_csr& matrix) { return matrix.bytes(); }

const matrix_summary& summary_of(const device_csr& matrix) { return matrix.summary(); }

CUstream_st* stream_of(const device_csr& matrix) { return matrix.stream(); }

std::vector<double> spmv_features_of(const device_csr& matrix) {
  std::vector<double> values(find_feature_set("spmv").names.size());
  write_features(matrix.statistics(), values.data());
  return values;
}

const csr_view& host_copy(const device_csr& matrix) { return matrix.host(); }

std::shared_ptr<const device_csr> view_csr(const device_csr_view& matrix, const device_allocator& allocate) {
  device_csr_arrays arrays;
  arrays.num_rows = matrix.num_rows;
  arrays.num_cols = matrix.num_cols;
  arrays.num_indices = matrix.num_indices;
  arrays.indptr = matrix.indptr;
  arrays.indices = matrix.indices;
  arrays.wide_indptr = matrix.wide_indptr;
  arrays.wide_indices = matrix.wide_indices;
  const std::size_t wide_offsets = matrix.wide_indptr ? matrix.num_rows + 1 : 0;
  const std::size_t wide_columns = matrix.wide_indices ? matrix.num_indices : 0;
  cuda::device_array<std::int32_t> indptr, indices;
  if (wide_offsets + wide_columns > 0) {
    cuda::shared_allocation narrow((wide_offsets + wide_columns) * sizeof(std::int32_t), 2, allocate);
    indptr = narrow.take<std::int32_t>(wide_offsets);
    indices = narrow.take<std::int32_t>(wide_columns);
  }
  const cuda::pending_matrix_check check(arrays, indptr.data(), indices.data(), matrix.stream);
  synchronize(matrix.stream);
  const row_statistics found = check.read();
  if (matrix.num_values < found.lengths.size.nnz) {
    throw error(error_kind::invalid_matrix, "data", matrix.num_values,
                "data must have at least nnz = " + std::to_string(found.lengths.size.nnz) + " entries, got " +
                    std::to_string(matrix.num_values));
  }
  return std::make_shared<const device_csr>(matrix, found.lengths, summary_from(found, matrix.dtype), std::move(indptr),
                                            std::move(indices));
}

device_permutation upload_permutation(std::span<const std::int32_t> perm, const device_allocator& allocate) {
  const std::shared_ptr<void> ids = allocate(std::max<std::size_t>(perm.size_bytes(), 1));
  if (!perm.empty()) {
    copy_to_device(ids.get(), perm.data(), perm.size_bytes(), nullptr);
    synchronize(nullptr);
  }
  return {ids, static_cast<const std::int32_t*>(ids.get())};
}

std::vector<std::int32_t> download_permutation(const device_permutation& perm, const device_csr& of) {
  std::vector<std::int32_t> rows(of.num_rows());
  if (!rows.empty()) copy_to_host(rows.data(), perm.get(), rows.size() * sizeof(rows[0]), of.stream());
  return rows;
}

std::shared_ptr<const device_csr> take_rows(const device_csr& matrix, const std::int32_t* rows,
                                            const matrix_summary& summary, const device_allocator& allocate) {
  if (matrix.wide()) {
    throw error(error_kind::index_overflow, "candidate", -1, "rows of 2^31 nonzeros and more are not moved on a GPU");
  }
  const cudaStream_t stream = matrix.stream();
  auto taken = std::make_shared<device_csr>(summary, allocate);
  taken->order_on(stream);
  const auto num_rows = static_cast<unsigned>(summary.num_rows);
  const cuda::pooled_memory lengths((num_rows + std::size_t{1}) * sizeof(std::int32_t), stream);
  moved_lengths_kernel<<<cuda::blocks_for(std::int64_t{num_rows} + 1), threads_per_block, 0, stream>>>(
      matrix.indptr32(), rows, num_rows, lengths.as<std::int32_t>());
  cuda::check_launch("moved_lengths_kernel");
  cuda::exclusive_scan(lengths.as<const std::int32_t>(), taken->indptr_to_fill(), std::int64_t{num_rows} + 1, stream);
  if (summary.nnz > 0) {
    cuda::dispatch_bits(matrix.dtype(), [&](auto bits) {
      using word = decltype(bits);
      move_rows_kernel<<<cuda::blocks_for(std::int64_t{num_rows} * threads_per_row), threads_per_block, 0, stream>>>(
          matrix.indptr32(), matrix.indices(), matrix.values<word>(), rows, num_rows, taken->indptr32(),
          taken->indices_to_fill(), reinterpret_cast<word*>(taken->data_to_fill()));
    });
    cuda::check_launch("move_rows_kernel");
  }
  return taken;
}

std::shared_ptr<const device_csr> permute_csr(const device_csr& matrix, const device_permutation& perm,
                                              const device_allocator& allocate) {
  return take_rows(matrix, perm.get(), matrix.summary(), allocate);
}

device_permutation compose(const device_permutation& outer, const std::int32_t* inner, const device_csr& of,
                           const device_allocator& allocate) {
  if (!outer || !inner) return outer;
  const std::shared_ptr<void> ids = allocate(std::max<std::size_t>(of.num_rows() * sizeof(std::int32_t), 1));
  auto* const composed = static_cast<std::int32_t*>(ids.get());
  if (of.num_rows() > 0) {
    compose_kernel<<<cuda::blocks_for(of.num_rows()), threads_per_block, 0, of.stream()>>>(
        outer.get(), inner, static_cast<unsigned>(of.num_rows()), composed);
    cuda::check_launch("compose_kernel");
  }
  return {ids, composed};
}

namespace cuda {

device_array<std::int32_t> row_indices_of(const device_csr& matrix, const device_allocator& allocate) {
  device_array<std::int32_t> rows(matrix.nnz(), allocate);
  if (matrix.nnz() > 0) {
    const unsigned share = nnz_per_warp(matrix.nnz());
    row_indices_kernel<<<cuda::blocks_for((matrix.nnz() + share - 1) / share * 32), threads_per_block, 0,
                         matrix.stream()>>>(matrix.indptr32(), static_cast<int>(matrix.num_rows()),
                                            static_cast<unsigned>(matrix.nnz()), share, rows.data());
    check_launch("row_indices_kernel");
  }
  return rows;
}

}  // namespace cuda
}  // namespace warploom
