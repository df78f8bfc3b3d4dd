// CSR-vector on the nonempty rows of DCSR. y has to be written whole, and in a hypersparse matrix that is most of the
// work: every thread clears its share of y, 16 bytes at a time and next to what its neighbours clear, so that it does
// not matter how long the gaps between nonempty rows are. A bit for every row tells which ones to leave to the groups
// of threads that multiply them; no thread waits for another.
//
// Bytes that have to be moved: y once, a bit for every row, and for a nonempty row its number, its offset and its
// nonzeros. CSR reads an offset for every row instead: with float32 values twice as much where hardly a row has
// nonzeros.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/device_csr.hpp"
#include "kernels/csr/row_storage.hpp"
#include "kernels/dcsr/device_dcsr.hpp"
#include "kernels/description.hpp"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;
constexpr std::int64_t vectors_per_thread = 4;  // of 16 bytes of y

template <class Value>
struct dcsr_view {
  unsigned num_rows;
  unsigned num_stored_rows;
  const std::uint8_t* nonempty;  // row r: bit r % 8 of entry r / 8
  const std::int32_t* indptr;
  const std::int32_t* row_ids;
  const std::int32_t* indices;
  const Value* data;
};

// Clears the empty rows among those of the vectors of 16 bytes thread, thread + threads, ...
template <class Value>
__device__ __forceinline__ void clear_empty_rows(const dcsr_view<Value>& A, std::uint64_t thread, std::uint64_t threads,
                                                 Value* __restrict__ y) {
  constexpr unsigned rows = 16 / sizeof(Value);
  constexpr unsigned all = (1u << rows) - 1;
  const bool aligned = reinterpret_cast<std::uintptr_t>(y) % 16 == 0;
#pragma unroll 4
  for (std::uint64_t first = thread * rows; first < A.num_rows; first += threads * rows) {
    const unsigned nonempty = __ldg(A.nonempty + first / 8) >> first % 8 & all;
    if (nonempty == 0 && aligned && first + rows <= A.num_rows) {
      *reinterpret_cast<uint4*>(y + first) = uint4{0, 0, 0, 0};
    } else if (nonempty != all) {
#pragma unroll
      for (unsigned r = 0; r < rows; ++r) {
        if (!(nonempty >> r & 1u) && first + r < A.num_rows) {
          y[first + r] = cuda::narrow<Value>(cuda::sum_type_t<Value>(0));
        }
      }
    }
  }
}

template <int T, class Value>
__global__ void __launch_bounds__(threads_per_block)
    dcsr_vector_kernel(const dcsr_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const std::uint64_t p = thread / T;
  const int lane = threadIdx.x % T;
  const bool has_row = p < A.num_stored_rows;
  // Offsets first: their latency passes while y is cleared.
  const std::int32_t begin = has_row ? __ldg(A.indptr + p) : 0;
  const std::int32_t end = has_row ? __ldg(A.indptr + p + 1) : 0;
  const std::int32_t row = has_row ? __ldg(A.row_ids + p) : 0;
  clear_empty_rows(A, thread, std::uint64_t{gridDim.x} * threads_per_block, y);

  cuda::sum_type_t<Value> sum = 0;
#pragma unroll 4
  for (std::int64_t j = std::int64_t{begin} + lane; j < end; j += T) {
    sum += cuda::widen(cuda::read_only(A.data + j)) * cuda::widen(cuda::read_only(x + __ldg(A.indices + j)));
  }
  sum = cuda::group_sum<T>(sum);
  if (has_row && lane == 0) y[row] = cuda::narrow<Value>(sum);
}

// Sets the bit of every row that is stored.
__global__ void mark_nonempty_kernel(const std::int32_t* __restrict__ row_ids, std::int64_t count,
                                     std::uint32_t* __restrict__ words) {
  const std::int64_t p = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (p < count) atomicOr(words + row_ids[p] / 32, 1u << row_ids[p] % 32);
}

template <class Value>
class dcsr_vector_plan final : public spmv_plan {
 public:
  dcsr_vector_plan(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : threads_per_row_(request.parameters.at("threads_per_row")),
        matrix_(matrix.kept(allocate)),
        rows_(matrix, request.row_ids.get(), false, allocate),
        nonempty_((matrix.num_rows() + 31) / 32, allocate) {
    if (nonempty_.size() == 0) return;
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(nonempty_.data(), 0, nonempty_.bytes(), matrix.stream()));
    if (rows_.count == 0) return;
    const auto blocks = static_cast<unsigned>((rows_.count + threads_per_block - 1) / threads_per_block);
    mark_nonempty_kernel<<<blocks, threads_per_block, 0, matrix.stream()>>>(rows_.row_ids.data(), rows_.count,
                                                                            nonempty_.data());
    cuda::check_launch("mark_nonempty_kernel");
  }

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (matrix_->num_rows() == 0) return;
    cuda::dispatch_constant<2, 4, 8, 16, 32>(threads_per_row_, [&](auto threads) { launch<threads>(x, y, stream); });
  }

  std::size_t bytes() const override { return nonempty_.bytes() + rows_.bytes() + matrix_->bytes(); }
  std::vector<value_array> value_arrays() override { return {matrix_->all_values()}; }

 private:
  template <int T>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    const std::int64_t num_rows = matrix_->num_rows();
    const dcsr_view<Value> A{static_cast<unsigned>(num_rows),
                             static_cast<unsigned>(rows_.count),
                             reinterpret_cast<const std::uint8_t*>(nonempty_.data()),
                             rows_.indptr32.data(),
                             rows_.row_ids.data(),
                             matrix_->indices(),
                             matrix_->values<Value>()};
    // Enough threads for all stored rows, and for y.
    constexpr std::int64_t rows_cleared = vectors_per_thread * (16 / static_cast<std::int64_t>(sizeof(Value)));
    const std::int64_t threads = std::max(rows_.count * T, (num_rows + rows_cleared - 1) / rows_cleared);
    const auto blocks = static_cast<unsigned>((threads + threads_per_block - 1) / threads_per_block);
    dcsr_vector_kernel<T>
        <<<blocks, threads_per_block, 0, stream>>>(A, static_cast<const Value*>(x), static_cast<Value*>(y));
    cuda::check_launch("dcsr_vector_kernel");
  }

  int threads_per_row_;
  std::shared_ptr<const device_csr> matrix_;
  cuda::nonempty_rows rows_;
  cuda::device_array<std::uint32_t> nonempty_;  // a bit for each row
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_dcsr_vector(const device_csr& matrix, const product_request& request,
                                                            const device_allocator& allocate) {
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<dcsr_vector_plan<decltype(value)>>(matrix, request, allocate);
  });
}

}  // namespace warploom
