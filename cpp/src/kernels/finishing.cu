// Passes over C for epilogues of kernels that do not apply them where they store, and dot products.
#include <algorithm>
#include <limits>

#include "device/runtime.hpp"
#include "device/workspace.hpp"
#include "kernels/device/finish.cuh"
#include "kernels/device/thread_block.cuh"
#include "kernels/finishing.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;
constexpr int values_per_thread = 4;

// A matrix by lines, rows or columns as they are stored. `product` null: none; it may be C.
template <class Value>
struct lines_view {
  const Value* product;
  std::int64_t product_step;
  Value* C;
  std::int64_t C_step;
  std::int64_t lines;
  unsigned length;
  bool bias_by_line;  // otherwise by the place in a line

  std::int64_t size() const { return lines * length; }
  // Nothing is between the lines.
  bool is_tight() const { return lines <= 1 || (C_step == length && (product == nullptr || product_step == length)); }
};

// Neighbouring threads take neighbouring values of a line. `Index` counts the values: division of 64-bit numbers takes
// longer than all the rest.
template <class Index, class Value>
__global__ void __launch_bounds__(threads_per_block)
    finish_kernel(const lines_view<Value> view, const cuda::finishing_values<Value> by, const Index total) {
  const std::int64_t step = std::int64_t{gridDim.x} * threads_per_block;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x; i < total; i += step) {
    const Index line = static_cast<Index>(i) / view.length;
    const auto place = static_cast<unsigned>(static_cast<Index>(i) - line * view.length);
    Value* const c = view.C + line * view.C_step + place;
    cuda::sum_type_t<Value> sum = 0;
    if (view.product != nullptr) sum = cuda::widen(view.product[line * view.product_step + place]);
    *c = cuda::narrow<Value>(by(sum, c, view.bias_by_line ? static_cast<std::int64_t>(line) : place));
  }
}

// The same in vectors, where nothing is between lines: V neighbouring values at once, and one by one those that are
// left.
template <int V, class Index, class Value>
__global__ void __launch_bounds__(threads_per_block)
    finish_tight_kernel(const lines_view<Value> view, const cuda::finishing_values<Value> by, const Index total) {
  using values = cuda::vector<Value, V>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * threads_per_block;
  const std::int64_t vectors = total / V;
  const bool reads_bias = by.bias != nullptr;
  for (std::int64_t i = thread; i < vectors; i += step) {
    values product{}, before{}, result;
    if (view.product != nullptr) product = *reinterpret_cast<const values*>(view.product + i * V);
    if (by.beta != 0) before = *reinterpret_cast<const values*>(view.C + i * V);
    Index line = 0;
    unsigned place = 0;
    if (reads_bias) {
      line = static_cast<Index>(i * V) / view.length;
      place = static_cast<unsigned>(static_cast<Index>(i * V) - line * view.length);
    }
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const std::int64_t at = view.bias_by_line ? static_cast<std::int64_t>(line) : place;
      result.lane[v] = cuda::narrow<Value>(by(cuda::widen(product.lane[v]), &before.lane[v], at));
      if (reads_bias && ++place == view.length) {
        place = 0;
        ++line;
      }
    }
    *reinterpret_cast<values*>(view.C + i * V) = result;
  }
  const std::int64_t left = vectors * V + thread;
  if (thread >= V || left >= total) return;
  const Index line = static_cast<Index>(left) / view.length;
  const auto place = static_cast<std::int64_t>(static_cast<Index>(left) - line * view.length);
  cuda::sum_type_t<Value> sum = 0;
  if (view.product != nullptr) sum = cuda::widen(view.product[left]);
  view.C[left] =
      cuda::narrow<Value>(by(sum, view.C + left, view.bias_by_line ? static_cast<std::int64_t>(line) : place));
}

template <class Index, class Value>
void finish(const lines_view<Value>& view, const cuda::finishing_values<Value>& by, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(Value);
  const auto total = static_cast<Index>(view.size());
  const auto blocks = [](std::int64_t threads) {
    const std::int64_t most = std::int64_t{1} << 20;
    return static_cast<unsigned>(
        std::clamp<std::int64_t>((threads + threads_per_block - 1) / threads_per_block, 1, most));
  };
  const std::uintptr_t addresses =
      reinterpret_cast<std::uintptr_t>(view.C) | reinterpret_cast<std::uintptr_t>(view.product);
  if (view.is_tight() && addresses % 16 == 0) {
    finish_tight_kernel<V><<<blocks(view.size() / V), threads_per_block, 0, stream>>>(view, by, total);
    cuda::check_launch("finish_tight_kernel");
    return;
  }
  finish_kernel<<<blocks((view.size() + values_per_thread - 1) / values_per_thread), threads_per_block, 0, stream>>>(
      view, by, total);
  cuda::check_launch("finish_kernel");
}

template <class Value>
void finish(const dense_view* product, const finished_product& finished, cudaStream_t stream) {
  const dense_view& C = finished.C;
  const bool by_row = finished.order == layout::row_major;
  const lines_view<Value> view{product ? static_cast<const Value*>(product->data) : nullptr,
                               product ? product->leading_dimension : 0,
                               static_cast<Value*>(C.data),
                               C.leading_dimension,
                               by_row ? C.num_rows : C.num_cols,
                               static_cast<unsigned>(by_row ? C.num_cols : C.num_rows),
                               by_row == finished.by.bias_is_column};
  if (view.size() == 0) return;
  const cuda::finishing_values<Value> by(finished.by);
  if (view.size() <= std::numeric_limits<std::uint32_t>::max()) {
    finish<std::uint32_t>(view, by, stream);
  } else {
    finish<std::uint64_t>(view, by, stream);
  }
}

// ---- Dot products: sums of thread blocks, and their sum

constexpr int most_blocks = 1024;

template <class Value>
__global__ void __launch_bounds__(threads_per_block)
    dot_kernel(const Value* __restrict__ x, std::int64_t x_step, const Value* __restrict__ y, std::int64_t y_step,
               std::int64_t size, double* of_blocks) {
  double sum = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * threads_per_block;
#pragma unroll 4
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x; i < size; i += step) {
    sum += static_cast<double>(cuda::widen(x[i * x_step])) * static_cast<double>(cuda::widen(y[i * y_step]));
  }
  __shared__ double of_warps[threads_per_block / 32];
  sum = cuda::block_sum<threads_per_block>(sum, of_warps);
  if (threadIdx.x == 0) of_blocks[blockIdx.x] = sum;
}

template <class Sum>
__global__ void __launch_bounds__(most_blocks) total_kernel(const double* of_blocks, unsigned blocks, Sum* result) {
  __shared__ double of_warps[most_blocks / 32];
  const double sum = cuda::block_sum<most_blocks>(threadIdx.x < blocks ? of_blocks[threadIdx.x] : 0.0, of_warps);
  if (threadIdx.x == 0) *result = static_cast<Sum>(sum);
}

}  // namespace

void run_then_finish_on_gpu(product_plan& plan, const dense_view& B, const finished_product& finished,
                            CUstream_st* stream) {
  const dense_view& C = finished.C;
  cuda::dispatch_device_type(finished.dtype, [&]<class Value>(Value) {
    if (finished.by.alpha == 0) return finish<Value>(nullptr, finished, stream);
    if (finished.by.beta == 0) {
      plan.run(B, C, stream);
      return finish<Value>(&C, finished, stream);
    }
    const std::int64_t tight = finished.order == layout::row_major ? C.num_cols : C.num_rows;
    const cuda::pooled_memory memory(C.num_rows * C.num_cols * sizeof(Value), stream, cuda::memory_pool::products);
    const dense_view product{memory.data(), C.num_rows, C.num_cols, tight};
    plan.run(B, product, stream);
    finish<Value>(&product, finished, stream);
  });
}

void dot_on_gpu(const dense_view& x, const dense_view& y, layout order, value_type dtype, void* dot,
                CUstream_st* stream) {
  cuda::dispatch_device_type(dtype, [&]<class Value>(Value) {
    const auto step = [&](const dense_view& v) { return order == layout::row_major ? v.leading_dimension : 1; };
    const auto wanted = cuda::blocks_for((x.num_rows + values_per_thread - 1) / values_per_thread, threads_per_block);
    const unsigned blocks = std::clamp(wanted, 1u, static_cast<unsigned>(most_blocks));
    const cuda::pooled_memory sums(most_blocks * sizeof(double), stream, cuda::memory_pool::products);
    dot_kernel<<<blocks, threads_per_block, 0, stream>>>(static_cast<const Value*>(x.data), step(x),
                                                         static_cast<const Value*>(y.data), step(y), x.num_rows,
                                                         sums.as<double>());
    cuda::check_launch("dot_kernel");
    total_kernel<<<1, most_blocks, 0, stream>>>(sums.as<double>(), blocks, static_cast<cuda::sum_type_t<Value>*>(dot));
    cuda::check_launch("total_kernel");
  });
}

}  // namespace warploom
