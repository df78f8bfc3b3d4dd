// Reads columns and values as the kernel of CMRS does (Koza et al. 2014, Algorithm 1), and computes nothing. Shared
// memory is reserved as if it held the partial sums of `height` rows for each thread, and so limits how many threads a
// multiprocessor holds (Sec. 6.3, Fig. 6.1).
//
// `never` is 0, which the compiler does not know: the loads cannot be optimised away, since their values would matter.
#include <algorithm>
#include <vector>

#include "device/device_csr.hpp"
#include "experiments/experiments.hpp"
#include "kernels/device/values.cuh"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

constexpr unsigned warp_size = 32;
constexpr unsigned warps_per_block = 4;  // as in the kernel of CMRS
constexpr unsigned threads_per_block = warps_per_block * warp_size;
constexpr unsigned places_per_segment = 1024;
constexpr unsigned unused_bits = 8;  // the remaining bits of a word fit into a float32

// The words of N runs of places, combined with "or". As in the product, all loads are unconditional.
template <int N, class Value>
__device__ __forceinline__ unsigned read_runs(const std::int32_t* __restrict__ columns,
                                              const Value* __restrict__ values, unsigned first, unsigned end) {
  unsigned column[N];
  Value value[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const unsigned j = min(first + i * warp_size, end - 1);
    column[i] = __ldcs(columns + j);
    value[i] = __ldcs(values + j);
  }
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (first + i * warp_size < end) bits |= column[i] | cuda::word_of(value[i]);
  }
  return bits;
}

// Four runs at a time and then the remaining ones, as in cuda::for_each_run. The compiler would unroll this loop
// further for float than it can that of the product.
template <class Value>
__device__ __forceinline__ unsigned read_places(const std::int32_t* __restrict__ columns,
                                                const Value* __restrict__ values, unsigned first, unsigned end,
                                                unsigned lane) {
  unsigned bits = 0;
#pragma unroll 1
  for (; first + 2 * warp_size < end; first += 4 * warp_size) {
    bits |= read_runs<4>(columns, values, first + lane, end);
  }
  if (first + warp_size < end) {
    bits |= read_runs<2>(columns, values, first + lane, end);
  } else if (first < end) {
    bits |= read_runs<1>(columns, values, first + lane, end);
  }
  return bits;
}

template <bool Strips, class Value>
__global__ void __launch_bounds__(threads_per_block)
    cmrs_read_kernel(unsigned num_rows, unsigned height, unsigned num_places, unsigned num_segments,
                     const std::int32_t* __restrict__ strip_ptr, const std::int32_t* __restrict__ columns,
                     const Value* __restrict__ values, Value* __restrict__ y, unsigned never) {
  const unsigned lane = threadIdx.x % warp_size;
  const unsigned piece = blockIdx.x * warps_per_block + threadIdx.x / warp_size;
  if (piece >= num_segments) return;
  const unsigned begin = Strips ? strip_ptr[piece] : piece * places_per_segment;
  const unsigned end = Strips ? strip_ptr[piece + 1] : min(begin + places_per_segment, num_places);

  const unsigned bits = read_places(columns, values, begin, end, lane);
  if (Strips) {
    for (unsigned i = lane; i < height; i += warp_size) {
      const unsigned row = piece * height + i;
      if (row < num_rows) y[row] = static_cast<Value>(bits >> unused_bits);
    }
  }
  if (bits & never) y[0] = 0;
}

std::size_t shared_bytes(std::size_t value_bytes, const cmrs_read& read) {
  return value_bytes * read.height * threads_per_block;
}

// What a kernel may reserve belongs to the kernel, not to a plan: enough for every height.
template <class Kernel>
void allow_shared_bytes(Kernel kernel, std::size_t value_bytes) {
  const auto bytes = static_cast<int>(shared_bytes(value_bytes, {.height = cmrs_read::max_height}));
  WARPLOOM_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  WARPLOOM_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
}

template <class Value>
auto kernel_of(const cmrs_read& read) {
  return read.strips ? cmrs_read_kernel<true, Value> : cmrs_read_kernel<false, Value>;
}

template <class Value>
class cmrs_read_plan final : public spmv_plan {
 public:
  cmrs_read_plan(std::shared_ptr<const device_csr> matrix, const cmrs_read& read, const device_allocator& allocate)
      : matrix_(std::move(matrix)), read_(read) {
    allow_shared_bytes(kernel_of<Value>(read), sizeof(Value));
    if (read.strips) find_strips(allocate);
  }

  // Reads no x.
  void multiply(const void*, void* y, CUstream_st* stream) override {
    const device_csr& A = *matrix_;
    if (num_segments() == 0) return;
    const unsigned blocks = (num_segments() + warps_per_block - 1) / warps_per_block;
    kernel_of<Value>(read_)<<<blocks, threads_per_block, shared_bytes(sizeof(Value), read_), stream>>>(
        static_cast<unsigned>(A.num_rows()), static_cast<unsigned>(read_.height), static_cast<unsigned>(A.nnz()),
        num_segments(), strip_ptr_.data(), A.indices(), A.values<Value>(), static_cast<Value*>(y), 0);
    cuda::check_launch("cmrs_read_kernel");
  }

  std::size_t bytes() const override { return matrix_->bytes() + strip_ptr_.bytes(); }

 private:
  unsigned num_segments() const {
    return read_.strips ? static_cast<unsigned>(strip_ptr_.size()) - 1
                        : static_cast<unsigned>((matrix_->nnz() + places_per_segment - 1) / places_per_segment);
  }

  // Offsets of every height-th row and of the end.
  void find_strips(const device_allocator& allocate) {
    const std::int64_t num_rows = matrix_->num_rows();
    std::vector<std::int32_t> indptr(num_rows + 1);
    copy_to_host(indptr.data(), matrix_->indptr32(), indptr.size() * sizeof(std::int32_t), matrix_->stream());
    std::vector<std::int32_t> strip_ptr;
    for (std::int64_t row = 0; row < num_rows; row += read_.height) strip_ptr.push_back(indptr[row]);
    strip_ptr.push_back(indptr[num_rows]);
    strip_ptr_ = cuda::upload(strip_ptr.data(), strip_ptr.size(), allocate, matrix_->stream());
  }

  std::shared_ptr<const device_csr> matrix_;
  cmrs_read read_;
  cuda::device_array<std::int32_t> strip_ptr_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cmrs_read(std::shared_ptr<const device_csr> matrix, const cmrs_read& read,
                                                const device_allocator& allocate) {
  return dispatch_wide_value_type(matrix->dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<cmrs_read_plan<decltype(value)>>(std::move(matrix), read, allocate);
  });
}

double cmrs_read_occupancy(value_type dtype, const cmrs_read& read) {
  return dispatch_wide_value_type(dtype, [&](auto value) {
    const auto kernel = kernel_of<decltype(value)>(read);
    allow_shared_bytes(kernel, sizeof(value));
    int blocks = 0;
    WARPLOOM_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads_per_block,
                                                                      shared_bytes(sizeof(value), read)));
    const double threads = double{threads_per_block} * blocks;
    return threads / cuda::device_attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  });
}

}  // namespace warploom
