// Conversion from CSR to SELL-C-sigma on the GPU: the rows are sorted, the slices measured, and the places written by
// one warp for each slice. The host learns the number of places, and how many slices are how wide where that decides
// on the head.
#include <algorithm>
#include <numeric>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/row_places.hpp"
#include "kernels/sell/device_sell.hpp"
#include "kernels/sell/row_slices.hpp"
#include "kernels/sell/slice_height.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int most_counts_in_shared_memory = 8192;

extern __shared__ unsigned counts_of_block[];

// counts[w] becomes the number of slices that are w columns wider than the narrowest; wider ones are not counted.
__global__ void __launch_bounds__(threads_per_block)
    count_widths_kernel(const std::int32_t* __restrict__ widths, std::int64_t num_slices, int narrowest, int size,
                        bool in_shared_memory, unsigned* __restrict__ counts) {
  if (in_shared_memory) {
    for (int w = threadIdx.x; w < size; w += threads_per_block) counts_of_block[w] = 0;
    __syncthreads();
  }
  unsigned* const to = in_shared_memory ? counts_of_block : counts;
  const std::int64_t stride = std::int64_t{gridDim.x} * threads_per_block;
  for (std::int64_t s = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x; s < num_slices; s += stride) {
    const int wider = widths[s] - narrowest;
    if (wider < size) atomicAdd(to + wider, 1u);
  }
  if (!in_shared_memory) return;
  __syncthreads();
  for (int w = threadIdx.x; w < size; w += threads_per_block) {
    if (counts_of_block[w] > 0) atomicAdd(counts + w, counts_of_block[w]);
  }
}

// Places of each slice beyond the head, and 0 behind the last.
__global__ void __launch_bounds__(threads_per_block)
    tails_kernel(const std::int32_t* __restrict__ widths, std::int64_t num_slices, std::int64_t head, unsigned height,
                 std::uint32_t* __restrict__ tails) {
  const std::int64_t s = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (s > num_slices) return;
  const std::int64_t width = s < num_slices ? widths[s] : 0;
  tails[s] = static_cast<std::uint32_t>(max(width - head, std::int64_t{0})) * height;
}

struct shared_head {
  std::int64_t width = 0;
  std::int64_t padding = 0;  // columns that it adds to slices that are narrower
};

// The widest head that adds no more than `spare` columns of padding, at most as wide as the widest slice. `counts` are
// the numbers of slices that are 0, 1, ... columns wider than the narrowest.
shared_head choose_head(const slice_totals& totals, std::int64_t spare, const std::vector<unsigned>& counts) {
  shared_head head{totals.narrowest(), 0};
  std::int64_t narrower = 0;  // slices that one more column would pad
  for (const unsigned count : counts) {
    narrower += count;
    if (head.width == totals.widest || head.padding + narrower > spare) break;
    head.padding += narrower;
    ++head.width;
  }
  return head;
}

shared_head find_head(const pooled_memory& widths, std::int64_t num_slices, const slice_totals& totals,
                      std::int64_t height, cudaStream_t stream) {
  constexpr unsigned most_blocks = 256;
  if (num_slices == 0) return {};
  const std::int64_t spare = sell_spare_columns(totals.columns * height, height);
  // The narrowest slice alone allows no more than `spare` columns on top of its own.
  const std::int64_t size = std::min<std::int64_t>(totals.widest - totals.narrowest(), spare);
  std::vector<unsigned> counts(size);
  if (size > 0) {
    const pooled_memory counted(size * sizeof(unsigned), stream);
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(counted.data(), 0, size * sizeof(unsigned), stream));
    const bool in_shared_memory = size <= most_counts_in_shared_memory;
    count_widths_kernel<<<std::min(blocks_for(num_slices), most_blocks), threads_per_block,
                          in_shared_memory ? size * sizeof(unsigned) : 0, stream>>>(
        widths.as<const std::int32_t>(), num_slices, totals.narrowest(), static_cast<int>(size), in_shared_memory,
        counted.as<unsigned>());
    check_launch("count_widths_kernel");
    copy_to_host(counts.data(), counted.data(), size * sizeof(unsigned), stream);
  }
  return choose_head(totals, spare, counts);
}

}  // namespace

device_sell::device_sell(const device_csr& matrix, const device_sell_options& options,
                         const std::function<void(std::int64_t)>& check_places, const device_allocator& allocate)
    : options_(options), num_cols_(matrix.num_cols()), nnz_(matrix.nnz()), stream_(matrix.stream()) {
  check_sell_options(options.slice_height, options.sort_window);
  const std::int64_t height = options.slice_height;
  slices_.num_rows = matrix.num_rows();
  slices_.dtype = matrix.dtype();
  slices_.height = height;
  if (options.sort_window > 1) slices_.row_ids = rows_by_length(matrix, options.sort_window, allocate);
  const std::int64_t num_slices = slices_.num_slices();
  const pooled_memory widths((num_slices + 1) * sizeof(std::int32_t), stream_);
  const pooled_memory measured(sizeof(slice_totals), stream_);
  measure_slices(matrix, {height, 1, slices_.row_ids.data()}, widths.as<std::int32_t>(), measured.as<slice_totals>());
  const slice_totals totals = read_back(measured.as<const slice_totals>(), stream_);
  const std::int64_t format_places = static_cast<std::int64_t>(totals.columns) * height;
  check_places(format_places);

  const shared_head head = options.shared_head ? find_head(widths, num_slices, totals, height, stream_) : shared_head{};
  slices_.head = head.width;
  const std::int64_t heads = num_slices * head.width * height;
  const std::int64_t places = format_places + head.padding * height;
  allocate_places(slices_, places, allocate);
  if (places > heads || !options.shared_head) {
    slices_.tail_ptr = {static_cast<std::size_t>(num_slices) + 1, allocate};
    const pooled_memory tails((num_slices + 1) * sizeof(std::uint32_t), stream_);
    tails_kernel<<<blocks_for(num_slices + 1), threads_per_block, 0, stream_>>>(
        widths.as<const std::int32_t>(), num_slices, head.width, static_cast<unsigned>(height),
        tails.as<std::uint32_t>());
    check_launch("tails_kernel");
    exclusive_scan(tails.as<const std::uint32_t>(), slices_.tail_ptr.data(), num_slices + 1,
                   static_cast<std::uint32_t>(heads), stream_);
  }
  fill_slices(matrix, slices_);
}

sell_matrix device_sell::download() const {
  const host_slices host = cuda::download(slices_, stream_);
  const std::int64_t height = slices_.height;
  const std::int64_t head_places = host.head * height;
  sell_matrix result;
  result.num_rows = slices_.num_rows;
  result.num_cols = num_cols_;
  result.dtype = slices_.dtype;
  result.slice_height = static_cast<int>(height);
  result.sort_window = options_.sort_window;
  result.num_entries = nnz_;
  result.row_ids = host.row_ids;
  const std::size_t value_size = size_of(result.dtype);
  const auto append = [&](std::int64_t from, std::int64_t count) {
    result.indices.insert(result.indices.end(), host.indices.begin() + from, host.indices.begin() + from + count);
    result.data.insert(result.data.end(), host.data.begin() + from * value_size,
                       host.data.begin() + (from + count) * value_size);
  };
  for (std::int64_t s = 0; s < slices_.num_slices(); ++s) {
    // A slice that is narrower than the head ends with its longest row.
    std::int64_t width = 0;
    for (std::int64_t r = 0; r < height; ++r) {
      width = std::max(width, entries_before_padding(host.indices.data() + s * head_places + r, host.head, height));
    }
    const std::int64_t tail = host.tail_ptr.empty() ? 0 : host.tail_ptr[s + 1] - host.tail_ptr[s];
    append(s * head_places, width * height);
    if (tail > 0) append(host.tail_ptr[s], tail);
    result.slice_ptr.push_back(static_cast<std::int64_t>(result.indices.size()));
  }
  return result;
}

}  // namespace warploom::cuda
