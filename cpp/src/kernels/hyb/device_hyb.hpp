// HYB (warploom/formats/hyb.hpp) in GPU memory, made there from CSR: ELL in slices, and COO with what the kernel has to
// know of its rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/ell/device_ell.hpp"
#include "warploom/formats/hyb.hpp"

namespace warploom::cuda {

// A row with more entries than this in COO is cut into segments of as many.
inline constexpr int hyb_segment_length = 512;

// The entries of a row in COO. Loaded with one instruction.
struct overflow_row {
  std::int32_t row;
  std::int32_t begin;
  std::int32_t end;
  std::int32_t cut;  // -1: the warp of the slice adds it; else the number of the cut row
};

// A segment of the entries that a cut row has in COO.
struct overflow_segment {
  std::int32_t begin;
  std::int32_t end;
  std::int32_t cut;
  std::int32_t slot;
};

static_assert(sizeof(overflow_row) == sizeof(int4) && sizeof(overflow_segment) == sizeof(int4));

class device_hyb {
 public:
  // ELL holds `width` entries of every row, or, if it is 0, as many as hyb_width gives, in slices of `height` rows.
  // Throws as to_hyb does, and what `check_width` throws when it is told the width of ELL. The matrix has 32-bit
  // offsets.
  device_hyb(const device_csr& matrix, std::int64_t width, int height,
             const std::function<void(std::int64_t)>& check_width, const device_allocator& allocate);

  const device_slices& ell() const { return ell_.slices(); }
  const std::uint32_t* overflow_ptr() const { return overflow_ptr_.data(); }  // null: there is nothing in COO
  const overflow_row* overflow_rows() const { return overflow_rows_.data(); }
  const overflow_segment* pieces() const { return pieces_.data(); }
  std::int64_t num_pieces() const { return static_cast<std::int64_t>(pieces_.size()); }
  const std::int32_t* cut_row_ids() const { return cut_row_ids_.data(); }
  // The segments of each cut row, the first of which is its part in ELL.
  const device_array<row_segments>& cut_rows() const { return cut_rows_; }
  std::int64_t num_slots() const { return num_pieces() + static_cast<std::int64_t>(cut_rows_.size()); }
  const std::int32_t* coo_indices() const { return coo_indices_.data(); }
  template <class Value>
  const Value* coo_values() const {
    return reinterpret_cast<const Value*>(coo_data_.data());
  }
  value_array coo_part_values() const { return {coo_data_.data(), static_cast<std::int64_t>(coo_indices_.size())}; }
  std::size_t bytes() const;
  hyb_matrix download() const;

 private:
  void make_coo(const device_csr& matrix, const device_allocator& allocate);

  device_ell ell_;
  cudaStream_t stream_;
  device_array<std::uint32_t> overflow_ptr_;  // [number of slices + 1] into overflow_rows_
  device_array<overflow_row> overflow_rows_;
  device_array<overflow_segment> pieces_;
  device_array<std::int32_t> cut_row_ids_;  // the row of each cut row
  device_array<row_segments> cut_rows_;
  device_array<std::int32_t> coo_indices_;
  device_array<std::byte> coo_data_;
};

}  // namespace warploom::cuda
