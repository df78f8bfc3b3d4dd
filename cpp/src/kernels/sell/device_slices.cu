#include <limits>

#include "kernels/sell/device_slices.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;

template <class Word>
struct slices_to_fill {
  std::int64_t num_rows;
  unsigned num_slices;
  unsigned height;
  unsigned head;                  // columns
  const std::uint32_t* tail_ptr;  // null: no tails
  const std::int32_t* row_ids;    // null: the rows in their order
  const std::int32_t* indptr;
  const std::int32_t* from_indices;
  const Word* from_data;
  std::int32_t* indices;
  Word* data;

  // The entries of stored row p: the first and how many.
  __device__ __forceinline__ int2 row(std::int64_t p) const {
    if (p >= num_rows) return make_int2(0, 0);
    const std::int64_t row = row_ids ? row_ids[p] : p;
    const int begin = indptr[row];
    return make_int2(begin, indptr[row + 1] - begin);
  }

  // Writes the columns from `column` on to `places` places from `begin` on; `first` is the first row of the slice.
  __device__ __forceinline__ void fill(std::int64_t first, unsigned begin, unsigned places, unsigned column) const {
    const unsigned lane = threadIdx.x % 32;
    // 32 places on, a lane is at this row and this column after those it is at.
    const unsigned row_step = 32 % height;
    const unsigned column_step = 32 / height;
    unsigned r = lane % height;
    column += lane / height;
    int2 entries = row(first + r);
#pragma unroll 4
    for (unsigned i = lane; i < places; i += 32) {
      const bool there = column < static_cast<unsigned>(entries.y);
      indices[begin + i] = there ? __ldg(from_indices + entries.x + column) : -1;
      data[begin + i] = there ? __ldg(from_data + entries.x + column) : Word{0};
      column += column_step;
      if (row_step != 0) {
        r += row_step;
        if (r >= height) {
          r -= height;
          ++column;
        }
        entries = row(first + r);
      }
    }
  }
};

// A warp for each slice.
template <class Word>
__global__ void __launch_bounds__(threads_per_block) fill_slices_kernel(const slices_to_fill<Word> A) {
  const unsigned slice = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  if (slice >= A.num_slices) return;
  const std::int64_t first = std::int64_t{slice} * A.height;
  const unsigned head_places = A.head * A.height;
  A.fill(first, slice * head_places, head_places, 0);
  if (A.tail_ptr) A.fill(first, A.tail_ptr[slice], A.tail_ptr[slice + 1] - A.tail_ptr[slice], A.head);
}

template <class Word>
void fill(const device_csr& matrix, const device_slices& slices) {
  constexpr std::int64_t warps_per_block = threads_per_block / 32;
  const auto blocks = static_cast<unsigned>((slices.num_slices() + warps_per_block - 1) / warps_per_block);
  const slices_to_fill<Word> view{slices.num_rows,
                                  static_cast<unsigned>(slices.num_slices()),
                                  static_cast<unsigned>(slices.height),
                                  static_cast<unsigned>(slices.head),
                                  slices.tail_ptr.data(),
                                  slices.row_ids.data(),
                                  matrix.indptr32(),
                                  matrix.indices(),
                                  matrix.values<Word>(),
                                  slices.indices.data(),
                                  reinterpret_cast<Word*>(slices.data.data())};
  fill_slices_kernel<<<blocks, threads_per_block, 0, matrix.stream()>>>(view);
  check_launch("fill_slices_kernel");
}

}  // namespace

void allocate_places(device_slices& slices, std::int64_t places, const device_allocator& allocate) {
  if (places > std::numeric_limits<std::uint32_t>::max()) {
    throw error(error_kind::index_overflow, "A", -1, "slices on a GPU have fewer than 2^32 places");
  }
  slices.indices = {static_cast<std::size_t>(places), allocate};
  slices.data = {places * size_of(slices.dtype), allocate};
}

void fill_slices(const device_csr& matrix, const device_slices& slices) {
  if (slices.places() == 0) return;
  switch (size_of(slices.dtype)) {
    case 2:
      return fill<std::uint16_t>(matrix, slices);
    case 4:
      return fill<std::uint32_t>(matrix, slices);
    default:
      return fill<unsigned long long>(matrix, slices);
  }
}

device_slices equal_slices(const device_csr& matrix, std::int64_t width, std::int64_t height,
                           const device_allocator& allocate) {
  device_slices slices;
  slices.num_rows = matrix.num_rows();
  slices.dtype = matrix.dtype();
  slices.height = height;
  slices.head = width;
  allocate_places(slices, slices.num_slices() * width * height, allocate);
  fill_slices(matrix, slices);
  return slices;
}

host_slices download(const device_slices& slices, cudaStream_t stream) {
  host_slices host;
  host.num_rows = slices.num_rows;
  host.dtype = slices.dtype;
  host.height = static_cast<int>(slices.height);
  host.head = slices.head;
  host.tail_ptr = download(slices.tail_ptr, stream);
  host.row_ids = download(slices.row_ids, stream);
  host.indices = download(slices.indices, stream);
  host.data = download(slices.data, stream);
  return host;
}

}  // namespace warploom::cuda
