// A CMRS matrix in GPU memory, and what the plans of its kernels share.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/cmrs/options.hpp"
#include "kernels/cmrs/places.cuh"
#include "kernels/device/values.cuh"
#include "kernels/spmv_plan.hpp"

namespace warploom::cuda {

// Strips whose entries are in CSR order are made on the GPU, next to the CSR matrix: they share its values and, unless
// packed, its columns. All others are made on the host.
class device_cmrs {
 public:
  device_cmrs(const device_csr& matrix, const product_request& request, const device_allocator& allocate);

  unsigned num_rows() const { return num_rows_; }
  unsigned num_strips() const { return num_strips_; }
  int height() const { return options_.height; }
  int modulo() const { return options_.modulo; }
  bool packed() const { return options_.packed; }
  const std::int32_t* strip_ptr() const { return strip_ptr_.data(); }
  template <bool Packed, bool Padded, class Value>
  cmrs_places<Packed, Padded, Value> places() const {
    return {columns(), rows_.data(), csr_ ? csr_->values<Value>() : reinterpret_cast<const Value*>(data_.data())};
  }
  value_array all_values() const {
    return csr_ ? csr_->all_values() : value_array{data_.data(), static_cast<std::int64_t>(columns_.size())};
  }
  std::size_t bytes() const {
    return (csr_ ? csr_->bytes() : 0) + strip_ptr_.bytes() + columns_.bytes() + rows_.bytes() + data_.bytes();
  }

  bool made_on_device() const { return csr_ != nullptr; }
  // Enqueues the conversion from CSR again, into the same arrays.
  void convert(CUstream_st* stream) const;

 private:
  const std::uint32_t* columns() const {
    const bool shared = csr_ != nullptr && !options_.packed;
    return shared ? reinterpret_cast<const std::uint32_t*>(csr_->indices()) : columns_.data();
  }
  void make_on_device(const device_csr& matrix, const device_allocator& allocate);
  void make_on_host(const device_csr& matrix, const device_allocator& allocate);

  cmrs_options options_;
  unsigned num_rows_;
  unsigned num_strips_;
  std::shared_ptr<const device_csr> csr_;  // null if made on the host
  device_array<std::int32_t> strip_ptr_;
  device_array<std::uint32_t> columns_;  // 16 * column + row in strip of each place if packed, else its column
  device_array<std::uint8_t> rows_;
  device_array<std::byte> data_;
};

class cmrs_plan : public spmv_plan {
 public:
  explicit cmrs_plan(device_cmrs matrix) : matrix_(std::move(matrix)) {}

  std::size_t bytes() const final { return matrix_.bytes(); }
  std::vector<value_array> value_arrays() final { return {matrix_.all_values()}; }

  std::vector<double> time_conversion(const timing_options& options) final {
    if (!matrix_.made_on_device()) return {};
    return time_on_device([&](CUstream_st* stream) { matrix_.convert(stream); }, options, nullptr);
  }

 protected:
  device_cmrs matrix_;
};

// Makes the plan for the matrix's value type: Plan<Value>(strips, arguments...).
template <template <class> class Plan, class... Arguments>
std::unique_ptr<product_plan> make_cmrs_plan(const device_csr& matrix, const product_request& request,
                                             const device_allocator& allocate, Arguments... arguments) {
  device_cmrs strips(matrix, request, allocate);
  return dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<Plan<decltype(value)>>(std::move(strips), arguments...);
  });
}

}  // namespace warploom::cuda
