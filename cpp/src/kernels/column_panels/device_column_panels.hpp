// The format column-panels (warploom/formats/column_panels.hpp) in GPU memory, converted there from CSR.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/column_panels/work.hpp"
#include "warploom/formats/column_panels.hpp"

namespace warploom::cuda {

// The rows that end in the chunks of the parts of a panel, and those that chunks share; see panel_cuts. Arrays of cut
// rows are as long as if every chunk ended in one.
struct device_panel_work {
  device_array<std::int32_t> first_sums;  // of every chunk: the sum of the first row that ends in it
  device_array<std::int32_t> cut_rows;
  device_array<std::int32_t> cut_ptr;
  device_array<std::int32_t> cut_chunks;
  device_array<std::int32_t> block_cuts;

  std::size_t bytes() const {
    return first_sums.bytes() + cut_rows.bytes() + cut_ptr.bytes() + cut_chunks.bytes() + block_cuts.bytes();
  }
};

// What is stored as the column of a nonzero: its number within the panel, or where a product has it in shared memory.
enum class column_numbers { in_panel, in_bank_order };

// Places are in the order in which warps load them: of each tile the first 16 bytes of every lane's values, then the
// next.
class device_column_panels {
 public:
  // Synchronises the stream once, to learn the sizes. In the order of banks, `panel_columns` is a multiple of
  // panel_columns_multiple.
  device_column_panels(const device_csr& matrix, int panel_columns, column_numbers numbers,
                       const device_allocator& allocate);

  cudaStream_t stream() const { return stream_; }  // that it was made on
  std::int64_t num_rows() const { return num_rows_; }
  std::int64_t num_cols() const { return num_cols_; }
  std::int64_t num_panels() const { return static_cast<std::int64_t>(panel_ptr_.size()) - 1; }
  std::int64_t num_row_blocks() const { return (num_rows_ + rows_per_mask - 1) / rows_per_mask; }
  std::int32_t panel_columns() const { return panel_columns_; }
  std::int64_t num_sums() const { return num_sums_; }
  value_type dtype() const { return dtype_; }
  const std::vector<std::int64_t>& panel_ptr() const { return panel_ptr_; }  // in host memory

  const std::uint16_t* columns() const { return columns_.data(); }
  const std::byte* values() const { return values_.data(); }
  value_array all_values() const { return {values_.data(), static_cast<std::int64_t>(columns_.size())}; }
  // Of the 8 places of a lane: the bits of row_ends, and 256 times the number of rows that end in the tile before.
  const std::uint16_t* lanes() const { return lanes_.data(); }
  // [row block][panel]: number of the first sum, and the mask of rows.
  const int2* row_blocks() const { return row_blocks_.data(); }
  std::size_t bytes() const { return columns_.bytes() + values_.bytes() + lanes_.bytes() + row_blocks_.bytes(); }

  // For the parts of `shares`. Called once at most: it frees what is kept for it.
  device_panel_work plan_work(const device_array<panel_part>& parts, const device_allocator& allocate);

  // With columns as they are stored.
  column_panels_matrix download() const;

 private:
  struct sorted_nonzeros;

  sorted_nonzeros sort_by_panel(const device_csr& matrix);
  void read_sizes(const sorted_nonzeros& sorted);
  void fill(const device_csr& matrix, const sorted_nonzeros& sorted);

  std::int64_t num_tiles() const { return panel_ptr_.back() / panel_tile; }

  std::int64_t num_rows_;
  std::int64_t num_cols_;
  std::int64_t nnz_;
  value_type dtype_;
  std::int32_t panel_columns_;
  column_numbers numbers_;
  std::vector<std::int64_t> panel_ptr_;
  std::int64_t num_sums_ = 0;
  cudaStream_t stream_;
  device_array<std::uint16_t> columns_;
  device_array<std::byte> values_;
  device_array<std::uint16_t> lanes_;
  device_array<int2> row_blocks_;
  device_array<int2> panels_;       // first nonzero in sorted order and first tile of each panel, and the end
  device_array<int2> tile_starts_;  // sums before each tile, and the row that it starts in the middle of, or -1
};

}  // namespace warploom::cuda
