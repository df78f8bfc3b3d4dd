#include <algorithm>
#include <cstring>

#include "kernels/sell/slices.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

host_slices slices_of(const ell_matrix& matrix, int height) {
  constexpr std::int64_t slices_per_task = 256;
  host_slices slices;
  slices.num_rows = matrix.num_rows;
  slices.dtype = matrix.dtype;
  slices.height = height;
  slices.head = matrix.width;
  const std::int64_t places = slices.num_slices() * matrix.width * height;
  const std::size_t value_size = size_of(matrix.dtype);
  slices.indices.assign(places, -1);
  slices.data.resize(places * value_size);
  parallel_for(0, slices.num_slices(), slices_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t rows = std::min<std::int64_t>(height, matrix.num_rows - s * height);
      for (std::int64_t j = 0; j < matrix.width; ++j) {
        const std::int64_t to = (s * matrix.width + j) * height;
        const std::int64_t from = j * matrix.num_rows + s * height;
        std::memcpy(slices.indices.data() + to, matrix.indices.data() + from, rows * sizeof(std::int32_t));
        std::memcpy(slices.data.data() + to * value_size, matrix.data.data() + from * value_size, rows * value_size);
      }
    }
  });
  return slices;
}

}  // namespace warploom
