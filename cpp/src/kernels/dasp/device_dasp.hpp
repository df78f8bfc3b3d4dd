// DASP (warploom/formats/dasp.hpp) in GPU memory, converted there from CSR: blocks of 8 x 4 and threshold 0.75.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/description.hpp"
#include "warploom/device.hpp"

namespace warploom::cuda {

inline constexpr int dasp_block_rows = 8;
inline constexpr int dasp_block_columns = 4;
inline constexpr int dasp_block_slots = dasp_block_rows * dasp_block_columns;
inline constexpr int dasp_part_groups = 32;  // groups of a long row that are summed in one go

// Row blocks whose rows are no longer than this have at most two blocks.
inline constexpr int dasp_narrow_length = 2 * dasp_block_columns;

// Rows and slots of each category, on the host.
struct dasp_sizes {
  std::int32_t num_rows = 0;
  std::int32_t num_long = 0;
  std::int32_t num_medium = 0;
  std::int32_t num_wide = 0;        // medium rows of more than dasp_narrow_length entries
  std::int32_t longest_medium = 0;  // entries
  std::int32_t num_one_three = 0;   // pairs
  std::int32_t num_twos = 0;        // rows
  std::int32_t num_four = 0;        // rows of four and padded rows of three
  std::int32_t num_single = 0;
  std::int32_t num_empty = 0;
  std::int32_t num_groups = 0;
  std::int32_t num_parts = 0;
  std::int32_t num_blocks = 0;  // of the regular section
  std::int32_t num_irregular = 0;

  __host__ __device__ std::int32_t num_row_blocks() const {
    return (num_medium + dasp_block_rows - 1) / dasp_block_rows;
  }
  __host__ __device__ std::int32_t num_pairs() const { return num_one_three + (num_twos + 1) / 2; }
  __host__ __device__ std::int32_t num_combined() const { return num_pairs() + num_four; }
  __host__ __device__ std::int32_t num_wide_blocks() const {
    return (num_wide + dasp_block_rows - 1) / dasp_block_rows;
  }
  // Sections of the slots.
  __host__ __device__ std::int64_t regular_begin() const { return std::int64_t{num_groups} * 2 * dasp_block_slots; }
  __host__ __device__ std::int64_t combined_begin() const {
    return regular_begin() + std::int64_t{num_blocks} * dasp_block_slots;
  }
  __host__ __device__ std::int64_t single_begin() const { return combined_begin() + 4 * std::int64_t{num_combined()}; }
  __host__ __device__ std::int64_t irregular_begin() const { return single_begin() + num_single; }
  __host__ __device__ std::int64_t num_slots() const { return irregular_begin() + num_irregular; }
  // Sections of the row ids.
  __host__ __device__ std::int64_t combined_rows() const { return std::int64_t{num_long} + num_medium; }
  __host__ __device__ std::int64_t single_rows() const {
    return combined_rows() + 2 * std::int64_t{num_pairs()} + num_four;
  }
  __host__ __device__ std::int64_t num_row_ids() const { return single_rows() + num_single + num_empty; }
};

// Up to `dasp_part_groups` groups of a long row: first block, number of blocks, row, and the number of the long row if
// it has several parts (else -1).
using dasp_part = int4;

class device_dasp {
 public:
  // Keeps the source of the conversion, with which that is timed, unless its arrays are somebody else's.
  device_dasp(const device_csr& source, const product_request& request, const device_allocator& allocate);

  const dasp_sizes& sizes() const { return sizes_; }
  const std::int32_t* indices() const { return indices_.data(); }
  template <class Value>
  const Value* values() const {
    return reinterpret_cast<const Value*>(data_.data());
  }
  value_array all_values() const { return {data_.data(), static_cast<std::int64_t>(indices_.size())}; }
  const std::int32_t* row_ids() const { return row_ids_.data(); }
  const dasp_part* parts() const { return parts_.data(); }
  const std::int32_t* part_ptr() const { return part_ptr_.data(); }
  const std::int32_t* block_ptr() const { return block_ptr_.data(); }
  const std::int32_t* irregular_ptr() const { return irregular_ptr_.data(); }

  std::size_t bytes() const;
  std::vector<double> time_conversion(const timing_options& options) const;

 private:
  struct scratch;

  void sort_and_count(const device_csr& source, const scratch& work, cudaStream_t stream) const;
  void read_sizes(const scratch& work, cudaStream_t stream);
  void fill(const device_csr& source, const scratch& work, cudaStream_t stream) const;

  std::shared_ptr<const device_csr> resident_;
  device_allocator allocate_;
  int max_length_;
  dasp_sizes sizes_;
  device_array<std::int32_t> indices_;
  device_array<std::byte> data_;
  device_array<std::int32_t> row_ids_;
  device_array<dasp_part> parts_;
  device_array<std::int32_t> part_ptr_;  // first part of each long row, and the end
  device_array<std::int32_t> block_ptr_;
  device_array<std::int32_t> irregular_ptr_;
};

}  // namespace warploom::cuda

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_dasp_cuda_core;  // what tensor_core does on GPUs without them

}  // namespace warploom
