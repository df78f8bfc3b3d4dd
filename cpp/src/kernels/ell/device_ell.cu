#include <algorithm>
#include <cstring>

#include "kernels/ell/device_ell.hpp"

namespace warploom::cuda {

ell_matrix device_ell::download() const {
  const host_slices host = cuda::download(slices_, stream_);
  ell_matrix result;
  result.num_rows = host.num_rows;
  result.num_cols = num_cols_;
  result.dtype = host.dtype;
  result.width = host.head;
  result.indices.resize(result.places());
  const std::size_t value_size = size_of(host.dtype);
  result.data.resize(result.places() * value_size);
  for (std::int64_t s = 0; s < host.num_slices(); ++s) {
    const std::int64_t rows = std::min<std::int64_t>(host.height, host.num_rows - s * host.height);
    for (std::int64_t j = 0; j < result.width; ++j) {
      const std::int64_t from = (s * result.width + j) * host.height;
      const std::int64_t to = j * result.num_rows + s * host.height;
      std::memcpy(result.indices.data() + to, host.indices.data() + from, rows * sizeof(std::int32_t));
      std::memcpy(result.data.data() + to * value_size, host.data.data() + from * value_size, rows * value_size);
    }
  }
  result.num_entries = std::count_if(result.indices.begin(), result.indices.end(), [](auto c) { return c >= 0; });
  return result;
}

}  // namespace warploom::cuda
