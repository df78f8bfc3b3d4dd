// CSR-vector (Bell and Garland 2009; Gao et al. 2024, Sec. 2.1): `threads_per_row` neighbouring threads share the
// nonzeros of a row and add their sums with shuffles. CSR-scalar is the case of one thread for each row.
#include <bit>

#include "device/device_csr.hpp"
#include "kernels/description.hpp"
#include "kernels/device/finish.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/finishing.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;

template <int T, class Value, class Offset, class Finish>
__global__ void __launch_bounds__(threads_per_block)
    csr_vector_kernel(unsigned num_rows, const Offset* __restrict__ indptr, const std::int32_t* __restrict__ indices,
                      const Value* __restrict__ data, const std::int32_t* __restrict__ row_ids,
                      const Value* __restrict__ x, Value* __restrict__ y, Finish finish) {
  using sum_type = cuda::sum_type_t<Value>;
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const auto row = static_cast<unsigned>(thread / T);
  const int lane = threadIdx.x % T;
  sum_type sum = 0;
  if (row < num_rows) {  // lanes past the last row still take part in the shuffles
    const Offset end = indptr[row + 1];
#pragma unroll 4
    for (Offset j = indptr[row] + lane; j < end; j += T) sum += cuda::widen(data[j]) * cuda::widen(x[indices[j]]);
  }
  sum = cuda::group_sum<T>(sum);
  if constexpr (Finish::has_end) {
    if (row < num_rows && lane == 0) finish.store(y, row_ids ? row_ids[row] : row, sum);
    finish.end();
  } else {
    if (row < num_rows && lane == 0) y[row_ids ? row_ids[row] : row] = cuda::narrow<Value>(sum);
  }
}

template <class Value>
class csr_vector_plan final : public spmv_plan, public finishing_plan {
 public:
  csr_vector_plan(cuda::csr_rows rows, int threads_per_row)
      : rows_(std::move(rows)), threads_per_row_(threads_per_row) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    launch(x, y, cuda::stored_as_they_are{}, stream);
  }

  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (!cuda::is_finished_by_rows(by)) return false;
    launch(B.data, C.data, cuda::finished<Value>{cuda::finishing_values<Value>(by), nullptr, {}}, stream);
    return true;
  }

  bool run_with_dot(const dense_view& x, const dense_view& y, void* dot, CUstream_st* stream) override {
    if (x.num_rows == 0 || !sums_.reserve(blocks(), stream)) return false;
    const auto* const from = static_cast<const Value*>(x.data);
    launch(x.data, y.data,
           cuda::finished<Value>{cuda::finishing_values<Value>({}), from,
                                 sums_.template view<cuda::sum_type_t<Value>>(dot)},
           stream);
    return true;
  }

  std::size_t bytes() const override { return rows_.bytes() + sums_.bytes(); }
  std::vector<value_array> value_arrays() override { return {rows_.matrix->all_values()}; }

 private:
  unsigned blocks() const { return cuda::blocks_for(rows_.matrix->num_rows() * threads_per_row_, threads_per_block); }

  template <class Finish>
  void launch(const void* x, void* y, const Finish& finish, cudaStream_t stream) const {
    if (rows_.matrix->num_rows() == 0) return;
    cuda::dispatch_constant<1, 2, 4, 8, 16, 32>(threads_per_row_,
                                                [&](auto threads) { launch<threads>(x, y, finish, stream); });
  }

  template <int T, class Finish>
  void launch(const void* x, void* y, const Finish& finish, cudaStream_t stream) const {
    const device_csr& A = *rows_.matrix;
    if (A.wide()) {
      launch<T>(A.indptr64(), x, y, finish, stream);
    } else {
      launch<T>(A.indptr32(), x, y, finish, stream);
    }
  }

  template <int T, class Offset, class Finish>
  void launch(const Offset* indptr, const void* x, void* y, const Finish& finish, cudaStream_t stream) const {
    const device_csr& A = *rows_.matrix;
    csr_vector_kernel<T><<<blocks(), threads_per_block, 0, stream>>>(
        static_cast<unsigned>(A.num_rows()), indptr, A.indices(), A.values<Value>(), rows_.row_ids.get(),
        static_cast<const Value*>(x), static_cast<Value*>(y), finish);
    cuda::check_launch("csr_vector_kernel");
  }

  cuda::csr_rows rows_;
  int threads_per_row_;
  cuda::grid_sum_workspace sums_;
};

std::unique_ptr<product_plan> prepare(const device_csr& matrix, const product_request& request,
                                      const device_allocator& allocate, int threads_per_row) {
  cuda::csr_rows rows(matrix, request, allocate);
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<csr_vector_plan<decltype(value)>>(std::move(rows), threads_per_row);
  });
}

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_csr_vector(const device_csr& matrix, const product_request& request,
                                                           const device_allocator& allocate) {
  return prepare(matrix, request, allocate, request.parameters.at("threads_per_row"));
}

std::unique_ptr<product_plan> prepare_cuda_spmv_csr_scalar(const device_csr& matrix, const product_request& request,
                                                           const device_allocator& allocate) {
  return prepare(matrix, request, allocate, 1);
}

}  // namespace warploom
