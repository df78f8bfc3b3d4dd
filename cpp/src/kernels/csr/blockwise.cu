// Blocks of short rows as CSR-vector with a number of threads per row of their own, and one thread block for every long
// row (Gao et al. 2024, Listing 1).
#include "device/device_csr.hpp"
#include "kernels/csr/blockwise_work.hpp"
#include "kernels/description.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/device/thread_block.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

template <class Value>
struct blockwise_view {
  const int4* work;  // blockwise_work, one for each thread block; null: thread block b continues `uniform` after b - 1
  int4 uniform;
  const std::int32_t* indptr;
  const std::int32_t* indices;
  const Value* data;
  const std::int32_t* row_ids;

  __device__ std::int64_t row_of_y(unsigned row) const { return row_ids ? row_ids[row] : row; }
};

template <int Threads, class Value>
__global__ void __launch_bounds__(Threads)
    csr_blockwise_kernel(const blockwise_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  using sum_type = cuda::sum_type_t<Value>;
  int4 work = A.uniform;
  if (A.work != nullptr) work = __ldg(A.work + blockIdx.x);
  const int bits = work.w;  // log2 of the threads per row
  if (bits == long_row_work) {
    __shared__ sum_type warp_sums[Threads / 32];
    const sum_type sum =
        cuda::strided_sum<8>(work.y + threadIdx.x, static_cast<unsigned>(work.z), Threads, A.indices, A.data, x);
    const sum_type total = cuda::block_sum<Threads>(sum, warp_sums);
    if (threadIdx.x == 0) y[A.row_of_y(work.x)] = cuda::narrow<Value>(total);
    return;
  }

  const unsigned group_size = 1u << bits;
  const unsigned lane = threadIdx.x & (group_size - 1);
  const unsigned end = work.y;
  unsigned first = work.x;
  if (A.work == nullptr) first += blockIdx.x * (static_cast<unsigned>(Threads) >> bits);
  for (; first < end; first += work.z) {  // the same for the whole thread block: all lanes meet in the shuffles
    const unsigned row = first + (threadIdx.x >> bits);
    sum_type sum = 0;
    if (row < end) {
      sum = cuda::strided_sum<4>(__ldg(A.indptr + row) + lane, static_cast<unsigned>(__ldg(A.indptr + row + 1)),
                                 group_size, A.indices, A.data, x);
    }
    sum = cuda::group_sum(sum, group_size);
    if (row < end && lane == 0) y[A.row_of_y(row)] = cuda::narrow<Value>(sum);
  }
}

// Threads of a thread block: many where one of them has to sum a very long row, few where a small matrix is to
// occupy many multiprocessors.
int choose_threads(const row_partition& partition, std::span<const std::int64_t> indptr) {
  constexpr std::int64_t very_long = 4096;
  for (std::int64_t i = 0; i < partition.size(); ++i) {
    if (!partition.is_long[i]) continue;
    for (std::int64_t row = partition.row_block[i]; row < partition.row_block[i + 1]; ++row) {
      if (indptr[row + 1] - indptr[row] >= very_long) return 512;
    }
  }
  return 128;
}

template <class Value>
class csr_blockwise_plan final : public spmv_plan {
 public:
  csr_blockwise_plan(cuda::csr_rows rows, const row_partition& partition, const std::vector<blockwise_work>& work,
                     int threads, const device_allocator& allocate, cudaStream_t stream)
      : rows_(std::move(rows)), threads_(threads), thread_blocks_(work.size()) {
    static_assert(sizeof(blockwise_work) == sizeof(int4));
    if (work.empty()) return;
    // A single block of short rows is what CSR-vector does: its thread blocks need no table, so they do not wait
    // for an entry.
    uniform_ = {work[0].row, work[0].end, work[0].stride, work[0].log2_threads_per_row};
    if (partition.size() == 1 && !partition.is_long[0]) return;
    work_ = cuda::upload(reinterpret_cast<const int4*>(work.data()), work.size(), allocate, stream);
  }

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (thread_blocks_ == 0) return;
    if (threads_ == 512) {
      launch<512>(x, y, stream);
    } else {
      launch<128>(x, y, stream);
    }
  }

  std::size_t bytes() const override { return rows_.bytes() + work_.bytes(); }
  std::vector<value_array> value_arrays() override { return {rows_.matrix->all_values()}; }

 private:
  template <int Threads>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    const device_csr& A = *rows_.matrix;
    const blockwise_view<Value> view{work_.data(), uniform_,          A.indptr32(),
                                     A.indices(),  A.values<Value>(), rows_.row_ids.get()};
    csr_blockwise_kernel<Threads><<<static_cast<unsigned>(thread_blocks_), Threads, 0, stream>>>(
        view, static_cast<const Value*>(x), static_cast<Value*>(y));
    cuda::check_launch("csr_blockwise_kernel");
  }

  cuda::csr_rows rows_;
  int threads_;
  std::size_t thread_blocks_;
  int4 uniform_{};
  cuda::device_array<int4> work_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_csr_blockwise(const device_csr& matrix, const product_request& request,
                                                              const device_allocator& allocate) {
  const std::vector<std::int64_t> indptr = matrix.host_offsets();
  const row_partition partition = partition_rows(indptr, request.parameters.at("long_row"));
  const std::vector<int> threads_per_row =
      threads_per_row_of_blocks(partition, request.parameters.at("threads_per_row"), request.input(blockwise_input));
  const int threads = choose_threads(partition, indptr);
  const std::vector<blockwise_work> work = distribute_blockwise_work(partition, indptr, threads_per_row, threads);
  cuda::csr_rows rows(matrix, request, allocate);
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<csr_blockwise_plan<decltype(value)>>(std::move(rows), partition, work, threads, allocate,
                                                                 matrix.stream());
  });
}

}  // namespace warploom
