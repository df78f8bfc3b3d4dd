// SpMV on rows padded to one length: where a row begins needs no load, so a product is two dependent memory accesses
// (entries, x) instead of three. `threads_per_row` threads take turns at four entries each.
#include "device/device_csr.hpp"
#include "kernels/description.hpp"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/padded_csr/device_padded.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

constexpr int entries_at_once = 4;

template <class Value>
struct padded_rows {
  unsigned num_rows;
  unsigned width;  // a multiple of entries_at_once
  const std::int32_t* indices;
  const Value* data;
  const std::int32_t* row_ids;  // null: the caller's order
};

template <class Value>
__device__ __forceinline__ cuda::vector<Value, entries_at_once> load_values(const Value* from) {
  constexpr int loads = sizeof(Value) * entries_at_once > 16 ? 2 : 1;
  cuda::vector<Value, entries_at_once> result;
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    constexpr int count = entries_at_once / loads;
    const auto part = cuda::load<Value, count>(from + i * count);
#pragma unroll
    for (int v = 0; v < count; ++v) result.lane[i * count + v] = part.lane[v];
  }
  return result;
}

template <int T, class Value>
__global__ void __launch_bounds__(256)
    padded_csr_vector_kernel(const padded_rows<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned row = thread / T;
  const unsigned lane = thread % T;
  cuda::sum_type_t<Value> sum = 0;
  if (row < A.num_rows) {  // lanes past the last row still take part in the shuffles
    const std::size_t begin = std::size_t{row} * A.width;
    const std::int32_t* indices = A.indices + begin;
    const Value* data = A.data + begin;
#pragma unroll 2
    for (unsigned j = lane * entries_at_once; j < A.width; j += T * entries_at_once) {
      const int4 columns = __ldg(reinterpret_cast<const int4*>(indices + j));
      const auto values = load_values(data + j);
      const std::int32_t column[entries_at_once] = {columns.x, columns.y, columns.z, columns.w};
#pragma unroll
      for (int i = 0; i < entries_at_once; ++i) {
        if (column[i] >= 0) sum += cuda::widen(values.lane[i]) * cuda::widen(cuda::read_only(x + column[i]));
      }
    }
  }
  sum = cuda::group_sum<T>(sum);
  if (row < A.num_rows && lane == 0) y[A.row_ids ? A.row_ids[row] : row] = cuda::narrow<Value>(sum);
}

template <class Value>
class padded_csr_vector_plan final : public spmv_plan {
 public:
  padded_csr_vector_plan(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
      : threads_per_row_(request.parameters.at("threads_per_row")), rows_(matrix, request.row_ids, allocate) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (rows_.num_rows() == 0) return;
    cuda::dispatch_constant<1, 2, 4, 8, 16, 32>(threads_per_row_, [&](auto threads) { launch<threads>(x, y, stream); });
  }

  std::size_t bytes() const override { return rows_.bytes(); }
  std::vector<value_array> value_arrays() override { return {rows_.all_values()}; }

 private:
  template <int T>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    // Small thread blocks distribute few threads over all multiprocessors; many small ones take longer to start.
    const std::int64_t threads = rows_.num_rows() * T;
    const int per_block = threads <= 32768 ? 128 : 256;
    const auto blocks = static_cast<unsigned>((threads + per_block - 1) / per_block);
    const padded_rows<Value> A{static_cast<unsigned>(rows_.num_rows()), static_cast<unsigned>(rows_.width()),
                               rows_.indices(), rows_.data<Value>(), rows_.row_ids()};
    padded_csr_vector_kernel<T>
        <<<blocks, per_block, 0, stream>>>(A, static_cast<const Value*>(x), static_cast<Value*>(y));
    cuda::check_launch("padded_csr_vector_kernel");
  }

  int threads_per_row_;
  cuda::device_padded rows_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_padded_csr_vector(const device_csr& matrix,
                                                                  const product_request& request,
                                                                  const device_allocator& allocate) {
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<padded_csr_vector_plan<decltype(value)>>(matrix, request, allocate);
  });
}

}  // namespace warploom
