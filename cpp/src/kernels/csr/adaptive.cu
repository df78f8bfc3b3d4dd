// CSR-adaptive (Greathouse and Daga 2014): every thread block takes about equally many nonzeros, found at preparation.
// Several rows go through shared memory (CSR-stream), one row is summed by the whole thread block (CSR-vector), and the
// segments of a longer one by several thread blocks (CSR-VectorL), the last of which adds the partial sums in order.
#include "device/device_csr.hpp"
#include "kernels/csr/device_row_blocks.hpp"
#include "kernels/csr/row_blocks.hpp"
#include "kernels/description.hpp"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/rows.cuh"
#include "kernels/device/thread_block.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

template <class Value>
struct adaptive_view {
  const int4* blocks;  // row_block
  const std::int32_t* indptr;
  const std::int32_t* indices;
  const Value* data;
  const std::int32_t* row_ids;
  const int4* cut_rows;  // cut_row_sums
  cuda::sum_type_t<Value>* partial_sums;
  unsigned* arrived;  // one for each cut row, zero between runs

  __device__ std::int64_t row_of_y(int row) const { return row_ids ? row_ids[row] : row; }
};

template <int Threads, int Share>
constexpr int max_rows = max_rows_per_block(Share, Threads);

// CSR-stream. Nonzeros are loaded coalesced, whatever their rows; then groups of threads sum one row each.
template <int Threads, int Share, class Value>
__device__ __forceinline__ void sum_rows(const adaptive_view<Value>& A, const int4& block, const Value* x, Value* y) {
  using sum_type = cuda::sum_type_t<Value>;
  __shared__ sum_type products[cuda::spread<sum_type>(Share)];
  __shared__ int starts[max_rows<Threads, Share> + 1];  // of the rows, among the products
  constexpr int per_thread = Share / Threads;
  const int thread = threadIdx.x;
  const int num_rows = block.w >> 3;
  const int length = block.z;

  std::int32_t columns[per_thread];
  Value values[per_thread];
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    const int at = thread + i * Threads;
    columns[i] = at < length ? __ldcs(A.indices + block.y + at) : 0;
    values[i] = at < length ? cuda::read_once(A.data + block.y + at) : Value(0.0f);
  }
  for (int row = thread; row <= num_rows; row += Threads) starts[row] = __ldg(A.indptr + block.x + row) - block.y;
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    const int at = thread + i * Threads;
    if (at < length) {
      products[cuda::spread<sum_type>(at)] = cuda::widen(values[i]) * cuda::widen(cuda::read_only(x + columns[i]));
    }
  }
  __syncthreads();

  const int bits = block.w & 7;
  const int group_size = 1 << bits;
  const int lane = thread & (group_size - 1);
  for (int first = 0; first < num_rows; first += Threads >> bits) {
    const int row = first + (thread >> bits);
    sum_type sum = 0;
    if (row < num_rows) {
      const int end = starts[row + 1];
#pragma unroll 4
      for (int j = starts[row] + lane; j < end; j += group_size) sum += products[cuda::spread<sum_type>(j)];
    }
    sum = cuda::group_sum(sum, group_size);
    if (row < num_rows && lane == 0) y[A.row_of_y(block.x + row)] = cuda::narrow<Value>(sum);
  }
}

// CSR-VectorL: stores the sum of one segment and, if all the others of its row are stored, adds them.
template <int Threads, class Value, class Sum>
__device__ void finish_cut_row(const adaptive_view<Value>& A, const int4& piece, Sum sum,
                               Sum (&warp_sums)[Threads / 32], Value* y) {
  __shared__ bool last;
  const int4 cut = __ldg(A.cut_rows + piece.x);  // row, first partial sum, how many
  if (threadIdx.x == 0) __stcg(A.partial_sums + (-1 - piece.w), sum);
  if (!cuda::block_arrives_last(A.arrived + piece.x, cut.z, last)) return;
  sum = cuda::share_of_partial_sums<Threads, 4>(A.partial_sums + cut.y, cut.z, threadIdx.x);
  sum = cuda::block_sum<Threads>(sum, warp_sums);
  if (threadIdx.x == 0) y[A.row_of_y(cut.x)] = cuda::narrow<Value>(sum);
}

template <int Threads, int Share, class Value>
__global__ void __launch_bounds__(Threads)
    csr_adaptive_kernel(const adaptive_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  const int4 block = __ldg(A.blocks + blockIdx.x);  // row, begin, length, shape
  const bool piece = block.w < 0;
  if (!piece && block.w >> 3 > 1) return sum_rows<Threads, Share>(A, block, x, y);

  __shared__ cuda::sum_type_t<Value> warp_sums[Threads / 32];
  auto sum = cuda::strided_sum<8>(block.y + threadIdx.x, block.y + block.z, Threads, A.indices, A.data, x);
  sum = cuda::block_sum<Threads>(sum, warp_sums);
  if (piece) return finish_cut_row<Threads>(A, block, sum, warp_sums, y);
  if (threadIdx.x == 0) y[A.row_of_y(block.x)] = cuda::narrow<Value>(sum);
}

// Thread blocks of 128 threads distribute a small matrix over more multiprocessors; large row blocks need more threads.
constexpr int threads_for(int nnz_per_block) { return nnz_per_block > 1024 ? 256 : 128; }

template <class Value>
class csr_adaptive_plan final : public spmv_plan {
 public:
  using sum_type = cuda::sum_type_t<Value>;

  csr_adaptive_plan(cuda::csr_rows rows, cuda::device_row_blocks blocks, int nnz_per_block,
                    const device_allocator& allocate)
      : rows_(std::move(rows)),
        nnz_per_block_(nnz_per_block),
        blocks_(std::move(blocks)),
        partial_sums_(blocks_.num_partials(), allocate),
        arrived_(blocks_.num_cut_rows(), allocate) {
    fill_device(arrived_.data(), 0, arrived_.bytes(), rows_.matrix->stream());
  }

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (blocks_.num_blocks() == 0) return;
    cuda::dispatch_constant<256, 512, 1024, 2048, 4096>(nnz_per_block_,
                                                        [&](auto share) { launch<share>(x, y, stream); });
  }

  std::size_t bytes() const override {
    return rows_.bytes() + blocks_.bytes() + partial_sums_.bytes() + arrived_.bytes();
  }
  std::vector<value_array> value_arrays() override { return {rows_.matrix->all_values()}; }

 private:
  template <int Share>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    constexpr int threads = threads_for(Share);
    const device_csr& A = *rows_.matrix;
    const adaptive_view<Value> view{blocks_.blocks(),    A.indptr32(),       A.indices(),          A.values<Value>(),
                                    rows_.row_ids.get(), blocks_.cut_rows(), partial_sums_.data(), arrived_.data()};
    csr_adaptive_kernel<threads, Share><<<static_cast<unsigned>(blocks_.num_blocks()), threads, 0, stream>>>(
        view, static_cast<const Value*>(x), static_cast<Value*>(y));
    cuda::check_launch("csr_adaptive_kernel");
  }

  cuda::csr_rows rows_;
  int nnz_per_block_;
  cuda::device_row_blocks blocks_;
  cuda::device_array<sum_type> partial_sums_;
  cuda::device_array<unsigned> arrived_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_csr_adaptive(const device_csr& matrix, const product_request& request,
                                                             const device_allocator& allocate) {
  const int nnz_per_block = request.parameters.at("nnz_per_block");
  cuda::device_row_blocks blocks(matrix, nnz_per_block, threads_for(nnz_per_block), allocate);
  cuda::csr_rows rows(matrix, request, allocate);
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<csr_adaptive_plan<decltype(value)>>(std::move(rows), std::move(blocks), nnz_per_block,
                                                                allocate);
  });
}

}  // namespace warploom
