// COO in GPU memory, made there from CSR: cut into parts of equal size, each of which a warp works on.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/device/rows.cuh"
#include "warploom/formats/coo.hpp"

namespace warploom::cuda {

// The rows that a part shares with other parts. Numbers are -1 where there is none.
struct part_borders {
  std::int32_t head_cut;   // the row that began in an earlier part
  std::int32_t head_slot;  // slot of the partial sum of its entries here
  std::int32_t tail_cut;   // the row that begins here and continues in the next part
  std::int32_t tail_slot;
};

// Part p has the places p * part_size .. (p + 1) * part_size. Those after its last nonzero repeat the row of that, and
// have column -1. Parts are cut at the end of a row where that leaves few of their places empty, so that few rows are
// shared. Segments of a shared row have neighbouring slots.
class device_coo {
 public:
  // Synchronises the stream of the matrix once, to learn the sizes. `part_size` is 128, 256 or 512.
  device_coo(const device_csr& matrix, int part_size, const device_allocator& allocate);

  std::size_t num_parts() const { return borders_.size(); }
  std::size_t num_empty_rows() const { return empty_rows_.size(); }
  std::size_t num_cut_rows() const { return cut_rows_.size(); }   // at most
  std::size_t num_slots() const { return 2 * cut_rows_.size(); }  // at most
  const part_borders* borders() const { return borders_.data(); }
  const std::int32_t* row_indices() const { return row_indices_.data(); }
  const std::int32_t* indices() const { return indices_.data(); }
  template <class Value>
  const Value* values() const {
    return reinterpret_cast<const Value*>(data_.data());
  }
  value_array all_values() const { return {data_.data(), static_cast<std::int64_t>(indices_.size())}; }
  const std::int32_t* empty_rows() const { return empty_rows_.data(); }
  const row_segments* cut_rows() const { return cut_rows_.data(); }
  std::size_t bytes() const {
    return borders_.bytes() + row_indices_.bytes() + indices_.bytes() + data_.bytes() + empty_rows_.bytes() +
           cut_rows_.bytes();
  }

  coo_matrix download() const;

 private:
  void find_empty_rows(const device_csr& matrix, const device_allocator& allocate);

  std::int64_t num_rows_;
  std::int64_t num_cols_;
  std::int64_t nnz_;
  value_type dtype_;
  cudaStream_t stream_;
  device_array<part_borders> borders_;
  device_array<std::int32_t> row_indices_;
  device_array<std::int32_t> indices_;
  device_array<std::byte> data_;
  device_array<std::int32_t> empty_rows_;
  device_array<row_segments> cut_rows_;
};

}  // namespace warploom::cuda
