// SELL-C-sigma as the GPU reads it: the columns that nearly all slices have come first.
#include <algorithm>
#include <cstring>

#include "device/device_csr.hpp"
#include "kernels/description.hpp"
#include "kernels/sell/slice_height.hpp"
#include "kernels/sell/slices.hpp"
#include "warploom/formats/sell.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t slices_per_task = 256;

// The widest head that adds little padding to that of the format: no more than small matrices, which gain from it, can
// afford.
std::int64_t head_width(const sell_matrix& matrix) {
  if (matrix.num_slices() == 0) return 0;
  const std::int64_t spare = std::min<std::int64_t>(matrix.places() / 4 + 256, 16384) / matrix.slice_height;
  std::vector<std::int64_t> widths(matrix.num_slices());
  for (std::int64_t s = 0; s < matrix.num_slices(); ++s) widths[s] = matrix.width(s);
  std::sort(widths.begin(), widths.end());
  // With the head as wide as the s-th narrowest slice, the s before it are padded.
  std::int64_t width = widths[0];
  std::int64_t added = 0;
  for (std::int64_t s = 1; s < matrix.num_slices(); ++s) {
    const std::int64_t room = (spare - added) / s;
    if (widths[s] - width > room) return width + room;
    added += (widths[s] - width) * s;
    width = widths[s];
  }
  return width;
}

// Places of each slice beyond the head.
std::vector<std::uint32_t> tails_of(const sell_matrix& matrix, std::int64_t head) {
  const std::int64_t heads = matrix.num_slices() * head * matrix.slice_height;
  std::vector<std::uint32_t> tail_ptr{static_cast<std::uint32_t>(heads)};
  tail_ptr.reserve(matrix.num_slices() + 1);
  for (std::int64_t s = 0; s < matrix.num_slices(); ++s) {
    const std::int64_t tail = std::max<std::int64_t>(matrix.width(s) - head, 0) * matrix.slice_height;
    tail_ptr.push_back(tail_ptr.back() + static_cast<std::uint32_t>(tail));
  }
  return tail_ptr;
}

host_slices with_shared_head(sell_matrix matrix) {
  host_slices slices;
  slices.num_rows = matrix.num_rows;
  slices.dtype = matrix.dtype;
  slices.height = matrix.slice_height;
  slices.row_ids = std::move(matrix.row_ids);
  slices.head = head_width(matrix);
  slices.tail_ptr = tails_of(matrix, slices.head);
  const std::int64_t head_places = slices.head * matrix.slice_height;
  const std::size_t value_size = size_of(matrix.dtype);
  slices.indices.assign(slices.tail_ptr.back(), -1);
  slices.data.resize(slices.tail_ptr.back() * value_size);
  const auto copy = [&](std::int64_t to, std::int64_t from, std::int64_t count) {
    if (count == 0) return;
    std::memcpy(slices.indices.data() + to, matrix.indices.data() + from, count * sizeof(std::int32_t));
    std::memcpy(slices.data.data() + to * value_size, matrix.data.data() + from * value_size, count * value_size);
  };
  parallel_for(0, matrix.num_slices(), slices_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t from = matrix.slice_ptr[s];
      const std::int64_t tail = slices.tail_ptr[s + 1] - slices.tail_ptr[s];
      copy(s * head_places, from, matrix.slice_ptr[s + 1] - from - tail);
      copy(slices.tail_ptr[s], matrix.slice_ptr[s + 1] - tail, tail);
    }
  });
  const std::int64_t heads = matrix.num_slices() * head_places;
  if (slices.tail_ptr.back() == heads) slices.tail_ptr.clear();
  return slices;
}

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_sell_vector(const device_csr& source, const product_request& request,
                                                            const device_allocator& allocate) {
  const csr_view& matrix = source.host();
  sell_matrix stored = to_sell(matrix, sell_slice_height(request), request.parameters.at("sort_window"));
  return make_cuda_slices_plan(with_shared_head(std::move(stored)), allocate);
}

}  // namespace warploom
