// CSR with hubs in GPU memory, made there from CSR.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/hub_csr/hub_csr.hpp"
#include "warploom/device.hpp"

namespace warploom::cuda {

// The arrays are those of to_hub_csr.
class device_hub_csr {
 public:
  // Called with the share of the nonzeros that is in hubs before anything is stored; may throw.
  using accept_share = std::function<void(double share)>;

  // Enqueued on the stream of the matrix, which is waited for once, when the sizes of the arrays are known: they are
  // not complete on return. Stored row p produces row row_ids[p], or row p if `row_ids` is null. The matrix has 32-bit
  // offsets. `accept` may be empty. Throws what check_hubs throws.
  device_hub_csr(const device_csr& matrix, const std::int32_t* row_ids, std::int64_t max_hubs, int entries_per_lane,
                 const accept_share& accept, const device_allocator& allocate);

  cudaStream_t stream() const { return stream_; }
  int entries_per_lane() const { return entries_per_lane_; }
  std::int64_t num_tiles() const { return static_cast<std::int64_t>(indices_.size()) / hub_tile; }
  std::size_t num_hubs() const { return hubs_.size(); }
  std::size_t num_empty_rows() const { return empty_rows_.size(); }
  const std::int32_t* hubs() const { return hubs_.data(); }
  const std::uint32_t* lanes() const { return lanes_.data(); }
  const std::int32_t* indices() const { return indices_.data(); }
  template <class Value>
  const Value* values() const {
    return reinterpret_cast<const Value*>(data_.data());
  }
  const std::int32_t* empty_rows() const { return empty_rows_.data(); }
  value_array all_values() const { return {data_.data(), static_cast<std::int64_t>(indices_.size())}; }
  std::size_t bytes() const {
    return hubs_.bytes() + lanes_.bytes() + indices_.bytes() + data_.bytes() + empty_rows_.bytes();
  }

  // The first lane of chunk c, which begins with tile c * num_tiles() / count, for the chunks 0 .. count. Synchronises
  // the stream.
  std::vector<std::uint32_t> first_lanes(std::int64_t count) const;

  // The same matrix in host memory.
  hub_csr download() const;

 private:
  struct hub_columns;
  struct row_lanes;

  hub_columns choose_hubs(const device_csr& matrix, std::int64_t max_hubs) const;
  row_lanes count_lanes(const device_csr& matrix, const std::int32_t* row_ids, const device_allocator& allocate);
  void fill(const device_csr& matrix, const std::int32_t* row_ids, const hub_columns& columns, const row_lanes& rows,
            std::int64_t num_lanes);

  std::int64_t num_rows_;
  std::int64_t num_cols_;
  std::int64_t nnz_;
  value_type dtype_;
  cudaStream_t stream_;
  int entries_per_lane_;
  device_array<std::int32_t> hubs_;
  device_array<std::uint32_t> lanes_;
  device_array<std::int32_t> indices_;
  device_array<std::byte> data_;
  device_array<std::int32_t> empty_rows_;
};

}  // namespace warploom::cuda
