// CSR-vector with and without its random access to x and its arithmetic: what each of them costs is the difference.
//
// What is read has to be used, or the compiler removes the load. Words that take part in no sum are combined with "or",
// the cheapest operation; the result would matter if a bit of `never` were set, which is an argument that is 0 and that
// the compiler cannot know.
#include "device/device_csr.hpp"
#include "experiments/experiments.hpp"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;

template <int T, bool Gather, bool Arithmetic, class Value>
__global__ void __launch_bounds__(threads_per_block)
    csr_parts_kernel(unsigned num_rows, unsigned num_cols, const std::int32_t* __restrict__ indptr,
                     const std::int32_t* __restrict__ indices, const Value* __restrict__ data,
                     const Value* __restrict__ x, Value* __restrict__ y, unsigned never) {
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const auto row = static_cast<unsigned>(thread / T);
  const int lane = threadIdx.x % T;
  Value own = 0;
  if (!(Gather && Arithmetic) && row < num_rows && row < num_cols) own = x[row];
  Value sum = 0;
  unsigned bits = 0;
  if (row < num_rows) {  // lanes past the last row still take part in the shuffles
    const std::int32_t end = indptr[row + 1];
#pragma unroll 4
    for (std::int32_t j = indptr[row] + lane; j < end; j += T) {
      const std::int32_t column = indices[j];
      const Value value = data[j];
      const Value factor = Gather ? x[column] : own;
      if (!Gather) bits |= column;
      if (Arithmetic) {
        sum += value * factor;
      } else {
        bits |= cuda::word_of(value);
        if (Gather) bits |= cuda::word_of(factor);
      }
    }
  }
  const bool used = (bits & never) != 0;
  if constexpr (Arithmetic) {
    if (used) sum = 0;
    sum = cuda::group_sum<T>(sum);
    if (row < num_rows && lane == 0) y[row] = sum;
  } else {
    if (used) own = 0;
    if (row < num_rows && (lane == 0 || used)) y[row] = own;
  }
}

template <class Value>
class csr_parts_plan final : public spmv_plan {
 public:
  csr_parts_plan(std::shared_ptr<const device_csr> matrix, const csr_parts& parts)
      : matrix_(std::move(matrix)), parts_(parts) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (matrix_->num_rows() == 0) return;
    cuda::dispatch_constant<1, 2, 4, 8, 16, 32>(parts_.threads_per_row, [&](auto threads) {
      cuda::dispatch_constant<0, 1>(parts_.gather, [&](auto gather) {
        cuda::dispatch_constant<0, 1>(parts_.arithmetic, [&](auto arithmetic) {
          launch<threads>(csr_parts_kernel<threads, gather != 0, arithmetic != 0, Value>, x, y, stream);
        });
      });
    });
  }

  std::size_t bytes() const override { return matrix_->bytes(); }

 private:
  template <int T, class Kernel>
  void launch(Kernel kernel, const void* x, void* y, cudaStream_t stream) const {
    const device_csr& A = *matrix_;
    const std::int64_t blocks = (A.num_rows() * T + threads_per_block - 1) / threads_per_block;
    kernel<<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(
        static_cast<unsigned>(A.num_rows()), static_cast<unsigned>(A.num_cols()), A.indptr32(), A.indices(),
        A.values<Value>(), static_cast<const Value*>(x), static_cast<Value*>(y), 0);
    cuda::check_launch("csr_parts_kernel");
  }

  std::shared_ptr<const device_csr> matrix_;
  csr_parts parts_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_csr_parts(std::shared_ptr<const device_csr> matrix, const csr_parts& parts) {
  return dispatch_wide_value_type(matrix->dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<csr_parts_plan<decltype(value)>>(std::move(matrix), parts);
  });
}

}  // namespace warploom
