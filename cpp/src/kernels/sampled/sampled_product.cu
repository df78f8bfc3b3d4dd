// Groups of T threads take runs of consecutive nonzeros, whatever rows they are in: a long row is no more work for a
// group than many short ones. A group looks up the row of its first nonzero and walks on from there; the row of X stays
// in the L1 cache meanwhile. Rows of Y are read by neighbouring threads at neighbouring columns.
#include <algorithm>
#include <cstdint>

#include "device/runtime.hpp"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/sampled/sampled_product.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;
constexpr int nonzeros_per_group = 8;

template <class Offset, class Index, class Value>
struct sampled_view {
  std::int64_t num_rows;
  std::int64_t num_cols;
  std::int64_t nnz;
  std::int64_t k;
  const Offset* indptr;
  const Index* indices;
  const Value* X;
  std::int64_t X_leading;
  const Value* Y;
  std::int64_t Y_leading;
  Value* out;
};

// The last row that begins at or before nonzero j.
template <class Offset>
__device__ __forceinline__ std::int64_t row_of(const Offset* __restrict__ indptr, std::int64_t num_rows,
                                               std::int64_t j) {
  std::int64_t low = 0;
  std::int64_t high = num_rows;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    if (__ldg(indptr + middle) <= j) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <int T, class Offset, class Index, class Value>
__global__ void __launch_bounds__(threads_per_block) sampled_kernel(const sampled_view<Offset, Index, Value> given) {
  const std::int64_t group = (std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x) / T;
  const int lane = threadIdx.x % T;
  const std::int64_t first = group * nonzeros_per_group;
  std::int64_t row = first < given.nnz ? row_of(given.indptr, given.num_rows, first) : 0;
  for (int i = 0; i < nonzeros_per_group; ++i) {
    const std::int64_t j = first + i;
    cuda::sum_type_t<Value> sum = 0;
    if (j < given.nnz) {
      while (row + 1 < given.num_rows && __ldg(given.indptr + row + 1) <= j) ++row;
      const std::int64_t column = __ldg(given.indices + j);
      if (column >= 0 && column < given.num_cols) {
        const Value* const x = given.X + row * given.X_leading;
        const Value* const y = given.Y + column * given.Y_leading;
        for (std::int64_t c = lane; c < given.k; c += T) sum += cuda::widen(__ldg(x + c)) * cuda::widen(__ldg(y + c));
      }
    }
    sum = cuda::group_sum<T>(sum);
    if (lane == 0 && j < given.nnz) given.out[j] = cuda::narrow<Value>(sum);
  }
}

template <int T, class Offset, class Index, class Value>
void launch(const sampled_view<Offset, Index, Value>& given, cudaStream_t stream) {
  const std::int64_t groups = (given.nnz + nonzeros_per_group - 1) / nonzeros_per_group;
  const std::int64_t blocks = (groups * T + threads_per_block - 1) / threads_per_block;
  sampled_kernel<T><<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(given);
  cuda::check_launch("sampled_kernel");
}

template <class Offset, class Index, class Value>
void sample(const device_csr_arrays& pattern, std::int64_t nnz, const dense_view& X, const dense_view& Y, void* out,
            cudaStream_t stream) {
  const sampled_view<Offset, Index, Value> given{pattern.num_rows,
                                                 pattern.num_cols,
                                                 nnz,
                                                 X.num_cols,
                                                 static_cast<const Offset*>(pattern.indptr),
                                                 static_cast<const Index*>(pattern.indices),
                                                 static_cast<const Value*>(X.data),
                                                 X.leading_dimension,
                                                 static_cast<const Value*>(Y.data),
                                                 Y.leading_dimension,
                                                 static_cast<Value*>(out)};
  if (X.num_cols <= 4) {
    launch<4>(given, stream);
  } else if (X.num_cols <= 8) {
    launch<8>(given, stream);
  } else if (X.num_cols <= 16) {
    launch<16>(given, stream);
  } else {
    launch<32>(given, stream);
  }
}

}  // namespace

void sampled_product_cuda(const device_csr_arrays& pattern, std::int64_t nnz, const dense_view& X, const dense_view& Y,
                          value_type dtype, void* out, CUstream_st* stream) {
  if (nnz == 0) return;
  cuda::dispatch_device_type(dtype, [&](auto value) {
    using Value = decltype(value);
    if (pattern.wide_indptr && pattern.wide_indices) {
      sample<std::int64_t, std::int64_t, Value>(pattern, nnz, X, Y, out, stream);
    } else if (pattern.wide_indptr) {
      sample<std::int64_t, std::int32_t, Value>(pattern, nnz, X, Y, out, stream);
    } else if (pattern.wide_indices) {
      sample<std::int32_t, std::int64_t, Value>(pattern, nnz, X, Y, out, stream);
    } else {
      sample<std::int32_t, std::int32_t, Value>(pattern, nnz, X, Y, out, stream);
    }
  });
}

}  // namespace warploom
