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
    sum += cuda::widen(__ldg(A.data + j)) * cuda::widen(__ldg(x + __ldg(A.indices + j)));
  }
  sum = cuda::group_sum<T>(sum);
  if (has_row && lane == 0) y[row] = cuda::narrow<Value>(sum);
}

std::vector<std::uint8_t> mark_nonempty_rows(const row_storage& rows) {
  std::vector<std::uint8_t> marked((rows.num_rows + 7) / 8, 0);
  for (const std::int32_t row : rows.row_ids) marked[row / 8] |= static_cast<std::uint8_t>(1u << row % 8);
  return marked;
}

template <class Value>
class dcsr_vector_plan final : public spmv_plan {
 public:
  dcsr_vector_plan(const row_storage& rows, int threads_per_row, const device_allocator& allocate)
      : dcsr_vector_plan(rows, {rows.indptr.begin(), rows.indptr.end()}, mark_nonempty_rows(rows), threads_per_row,
                         allocate) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (num_rows_ == 0) return;
    cuda::dispatch_constant<2, 4, 8, 16, 32>(threads_per_row_, [&](auto threads) { launch<threads>(x, y, stream); });
  }

  std::size_t bytes() const override {
    return nonempty_.bytes() + indptr_.bytes() + row_ids_.bytes() + indices_.bytes() + data_.bytes();
  }

 private:
  dcsr_vector_plan(const row_storage& rows, const std::vector<std::int32_t>& indptr,
                   const std::vector<std::uint8_t>& nonempty, int threads_per_row, const device_allocator& allocate)
      : num_rows_(rows.num_rows),
        threads_per_row_(threads_per_row),
        nonempty_(cuda::upload(nonempty.data(), nonempty.size(), allocate)),
        indptr_(cuda::upload(indptr.data(), indptr.size(), allocate)),
        row_ids_(cuda::upload(rows.row_ids.data(), rows.row_ids.size(), allocate)),
        indices_(cuda::upload(rows.indices, rows.nnz(), allocate)),
        data_(cuda::upload(static_cast<const Value*>(rows.data), rows.nnz(), allocate)) {}

  template <int T>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    const dcsr_view<Value> A{static_cast<unsigned>(num_rows_),
                             static_cast<unsigned>(row_ids_.size()),
                             nonempty_.data(),
                             indptr_.data(),
                             row_ids_.data(),
                             indices_.data(),
                             data_.data()};
    // Enough threads for all stored rows, and for y.
    constexpr std::int64_t rows_cleared = vectors_per_thread * (16 / static_cast<std::int64_t>(sizeof(Value)));
    const std::int64_t threads =
        std::max(static_cast<std::int64_t>(row_ids_.size()) * T, (num_rows_ + rows_cleared - 1) / rows_cleared);
    const auto blocks = static_cast<unsigned>((threads + threads_per_block - 1) / threads_per_block);
    dcsr_vector_kernel<T>
        <<<blocks, threads_per_block, 0, stream>>>(A, static_cast<const Value*>(x), static_cast<Value*>(y));
    cuda::check_launch("dcsr_vector_kernel");
  }

  std::int64_t num_rows_;
  int threads_per_row_;
  cuda::device_array<std::uint8_t> nonempty_;
  cuda::device_array<std::int32_t> indptr_;
  cuda::device_array<std::int32_t> row_ids_;
  cuda::device_array<std::int32_t> indices_;
  cuda::device_array<Value> data_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_dcsr_vector(const device_csr& source, const product_request& request,
                                                            const device_allocator& allocate) {
  const csr_view& matrix = source.host();
  const row_storage rows = store_nonempty_rows(matrix, request.perm);
  return cuda::dispatch_device_type(matrix.dtype, [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<dcsr_vector_plan<decltype(value)>>(rows, request.parameters.at("threads_per_row"),
                                                               allocate);
  });
}

}  // namespace warploom
