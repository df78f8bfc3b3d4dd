// CSR-vector (Bell and Garland 2009; Gao et al. 2024, Sec. 2.1): `threads_per_row` neighbouring threads share the
// nonzeros of a row and add their sums with shuffles. CSR-scalar is the case of one thread for each row.
#include <algorithm>

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
constexpr int blocks_per_multiprocessor = 16;

template <int T, class Value, class Offset>
__global__ void __launch_bounds__(threads_per_block)
    csr_vector_kernel(unsigned num_rows, const Offset* __restrict__ indptr, const std::int32_t* __restrict__ indices,
                      const Value* __restrict__ data, const std::int32_t* __restrict__ row_ids,
                      const Value* __restrict__ x, Value* __restrict__ y) {
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
  if (row < num_rows && lane == 0) y[row_ids ? row_ids[row] : row] = cuda::narrow<Value>(sum);
}

// y is read before the entries: most rows are short, and their time is that of accesses which wait for each other.
template <int T, class Value, class Offset>
__global__ void __launch_bounds__(threads_per_block,
                                  cuda::blocks_with_registers(threads_per_block, blocks_per_multiprocessor))
    csr_vector_finished_kernel(unsigned num_rows, const Offset* __restrict__ indptr,
                               const std::int32_t* __restrict__ indices, const Value* __restrict__ data,
                               const std::int32_t* __restrict__ row_ids, const Value* __restrict__ x,
                               Value* __restrict__ y, const cuda::finishing_values<Value> by) {
  using sum_type = cuda::sum_type_t<Value>;
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const auto row = static_cast<unsigned>(thread / T);
  const int lane = threadIdx.x % T;
  sum_type sum = 0;
  unsigned target = row;
  Value before{};
  if (row < num_rows) {
    const Offset begin = indptr[row], end = indptr[row + 1];
    if (lane == 0) {
      if (row_ids) target = row_ids[row];
      if (by.beta != 0) before = y[target];
    }
#pragma unroll 4
    for (Offset j = begin + lane; j < end; j += T) sum += cuda::widen(data[j]) * cuda::widen(x[indices[j]]);
  }
  sum = cuda::group_sum<T>(sum);
  if (row < num_rows && lane == 0) y[target] = cuda::narrow<Value>(by(sum, &before, target));
}

// With x . y. The sum of a thread block costs as much as several short rows: each takes many, from all over the matrix,
// because long rows are often neighbours.
template <int T, class Value, class Offset>
__global__ void __launch_bounds__(threads_per_block,
                                  cuda::blocks_with_registers(threads_per_block, blocks_per_multiprocessor))
    csr_vector_dot_kernel(unsigned num_rows, const Offset* __restrict__ indptr,
                          const std::int32_t* __restrict__ indices, const Value* __restrict__ data,
                          const std::int32_t* __restrict__ row_ids, const Value* __restrict__ x, Value* __restrict__ y,
                          const cuda::grid_sum_view<cuda::sum_type_t<Value>> dot) {
  using sum_type = cuda::sum_type_t<Value>;
  constexpr unsigned rows_at_once = threads_per_block / T;
  const int lane = threadIdx.x % T;
  double mine = 0;
  // The same number of times for all threads of the block.
  for (unsigned first = blockIdx.x * rows_at_once; first < num_rows; first += gridDim.x * rows_at_once) {
    const unsigned row = first + threadIdx.x / T;
    sum_type sum = 0;
    unsigned target = row;
    Value other{};
    if (row < num_rows) {
      const Offset begin = indptr[row], end = indptr[row + 1];
      if (lane == 0) {
        if (row_ids) target = row_ids[row];
        other = x[target];
      }
#pragma unroll 4
      for (Offset j = begin + lane; j < end; j += T) sum += cuda::widen(data[j]) * cuda::widen(x[indices[j]]);
    }
    sum = cuda::group_sum<T>(sum);
    if (row < num_rows && lane == 0) {
      const Value result = cuda::narrow<Value>(sum);
      y[target] = result;
      mine += static_cast<double>(cuda::widen(other)) * static_cast<double>(cuda::widen(result));
    }
  }
  cuda::grid_sum_view<sum_type>::add(dot, mine);
}

template <class Value>
class csr_vector_plan final : public spmv_plan, public finishing_plan {
 public:
  csr_vector_plan(cuda::csr_rows rows, int threads_per_row)
      : rows_(std::move(rows)), threads_per_row_(threads_per_row) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (rows_.matrix->num_rows() == 0) return;
    dispatch([&](auto threads, const auto* indptr) {
      csr_vector_kernel<threads><<<blocks(), threads_per_block, 0, stream>>>(
          num_rows(), indptr, rows_.matrix->indices(), rows_.matrix->values<Value>(), rows_.row_ids.get(),
          static_cast<const Value*>(x), static_cast<Value*>(y));
      cuda::check_launch("csr_vector_kernel");
    });
  }

  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (!cuda::is_finished_by_rows(by)) return false;
    dispatch([&](auto threads, const auto* indptr) {
      csr_vector_finished_kernel<threads><<<blocks(), threads_per_block, 0, stream>>>(
          num_rows(), indptr, rows_.matrix->indices(), rows_.matrix->values<Value>(), rows_.row_ids.get(),
          static_cast<const Value*>(B.data), static_cast<Value*>(C.data), cuda::finishing_values<Value>(by));
      cuda::check_launch("csr_vector_finished_kernel");
    });
    return true;
  }

  bool run_with_dot(const dense_view& x, const dense_view& y, void* dot, CUstream_st* stream) override {
    const unsigned summed = std::min(blocks(), most_sums_);
    if (x.num_rows == 0 || !sums_.reserve(summed, stream)) return false;
    dispatch([&](auto threads, const auto* indptr) {
      csr_vector_dot_kernel<threads><<<summed, threads_per_block, 0, stream>>>(
          num_rows(), indptr, rows_.matrix->indices(), rows_.matrix->values<Value>(), rows_.row_ids.get(),
          static_cast<const Value*>(x.data), static_cast<Value*>(y.data),
          sums_.template view<cuda::sum_type_t<Value>>(dot));
      cuda::check_launch("csr_vector_dot_kernel");
    });
    return true;
  }

  std::size_t bytes() const override { return rows_.bytes() + sums_.bytes(); }
  std::vector<value_array> value_arrays() override { return {rows_.matrix->all_values()}; }

 private:
  unsigned num_rows() const { return static_cast<unsigned>(rows_.matrix->num_rows()); }
  unsigned blocks() const { return cuda::blocks_for(rows_.matrix->num_rows() * threads_per_row_, threads_per_block); }

  // Calls `function` with the threads of a row and the row offsets.
  template <class Function>
  void dispatch(Function function) const {
    const device_csr& A = *rows_.matrix;
    cuda::dispatch_constant<1, 2, 4, 8, 16, 32>(threads_per_row_, [&](auto threads) {
      if (A.wide()) {
        function(threads, A.indptr64());
      } else {
        function(threads, A.indptr32());
      }
    });
  }

  cuda::csr_rows rows_;
  int threads_per_row_;
  // Twice as many thread blocks as the GPU can hold.
  unsigned most_sums_ =
      static_cast<unsigned>(cuda::device_attribute(cudaDevAttrMultiProcessorCount)) * 2 * blocks_per_multiprocessor;
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
