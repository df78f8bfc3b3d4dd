// The epilogue of a product where sums are about to be stored, and dot products of the operand and the result of SpMV.
// Kernels take it as a type: `stored_as_they_are` leaves no trace in them, `finished` is the epilogue. Device code
// only.
#pragma once

#include "device/runtime.hpp"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "warploom/kernels/epilogue.hpp"

namespace warploom::cuda {

// `epilogue` in the types of the sums.
template <class Value>
struct finishing_values {
  sum_type_t<Value> alpha;
  sum_type_t<Value> beta;
  const Value* bias;  // null: none
  bool relu;

  explicit finishing_values(const epilogue& by)
      : alpha(static_cast<sum_type_t<Value>>(by.alpha)),
        beta(static_cast<sum_type_t<Value>>(by.beta)),
        bias(static_cast<const Value*>(by.bias)),
        relu(by.then == activation::relu) {}

  // `at` is the place of the sum in the bias.
  __device__ __forceinline__ sum_type_t<Value> operator()(sum_type_t<Value> sum, const Value* before,
                                                          std::int64_t at) const {
    sum *= alpha;
    if (beta != 0) sum += beta * widen(*before);
    if (bias != nullptr) sum += widen(read_only(bias + at));
    return relu && sum < 0 ? 0 : sum;  // NaN stays
  }
};

// ---- Sums over the whole grid, in float64
//
// Thread blocks leave their sums in a workspace. The last of each group of neighbouring thread blocks adds those of the
// group, and the last group adds those of all groups: both always in the same order (last_arrival.cuh says why that is
// safe). So neither does one thread block add up tens of thousands of sums, nor is there another launch.

constexpr int grid_sum_group = 128;  // thread blocks

template <class Sum>
struct grid_sum_view {
  double* of_blocks;
  double* of_groups;
  unsigned* arrived;  // [groups + 1], zero between runs
  Sum* result;        // null: there is no sum

  // Called by whole thread blocks of up to 1,024 threads, a multiple of 32, with what each thread has. No part of its
  // callers: barriers are met at the same place from wherever warps come, and kernels are compiled faster.
  static __device__ __noinline__ void add(const grid_sum_view view, double mine) { view.add_up(mine); }

 private:
  __device__ __forceinline__ void add_up(double mine) const {
    __shared__ bool last;
    const unsigned group = blockIdx.x / grid_sum_group;
    const unsigned groups = (gridDim.x + grid_sum_group - 1) / grid_sum_group;
    const unsigned first = group * grid_sum_group;
    const int blocks = static_cast<int>(min(gridDim.x - first, static_cast<unsigned>(grid_sum_group)));
    double sum = block_total(mine);
    if (threadIdx.x == 0) __stcg(of_blocks + blockIdx.x, sum);
    if (!block_arrives_last(arrived + group, blocks, last)) return;
    sum = block_total(share_of(of_blocks + first, blocks));
    if (threadIdx.x == 0) __stcg(of_groups + group, sum);
    // block_total has a barrier after which nobody reads `last` of before.
    if (!block_arrives_last(arrived + groups, static_cast<int>(groups), last)) return;
    sum = block_total(share_of(of_groups, static_cast<int>(groups)));
    if (threadIdx.x == 0) *result = static_cast<Sum>(sum);
  }

  __device__ static double share_of(const double* sums, int count) {
    double sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) sum += __ldcg(sums + i);
    return sum;
  }
  // In thread 0.
  __device__ static double block_total(double sum) {
    __shared__ double of_warps[32];
    sum = group_sum<32>(sum);
    if (lane_id() == 0) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) sum += of_warps[warp];
    }
    __syncthreads();
    return sum;
  }
};

// Memory for them, made at the first sum. A plan that has such runs one product at a time.
class grid_sum_workspace {
 public:
  // False if the stream is being captured and there is not enough memory yet: what is allocated then lives only as long
  // as the graph.
  bool reserve(std::size_t blocks, cudaStream_t stream) {
    if (blocks <= blocks_) return true;
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    WARPLOOM_CUDA_CHECK(cudaStreamIsCapturing(stream, &capturing));
    if (capturing != cudaStreamCaptureStatusNone) return false;
    const std::size_t groups = groups_of(blocks);
    device_array<double> sums(blocks + groups, allocate_device_memory);
    device_array<unsigned> arrived(groups + 1, allocate_device_memory);
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(arrived.data(), 0, arrived.bytes(), stream));
    sums_ = std::move(sums);
    arrived_ = std::move(arrived);
    blocks_ = blocks;
    return true;
  }
  // For as many thread blocks as were reserved, or fewer.
  template <class Sum>
  grid_sum_view<Sum> view(void* result) const {
    return {sums_.data(), sums_.data() + blocks_, arrived_.data(), static_cast<Sum*>(result)};
  }
  std::size_t bytes() const { return sums_.bytes() + arrived_.bytes(); }

 private:
  static std::size_t groups_of(std::size_t blocks) { return (blocks + grid_sum_group - 1) / grid_sum_group; }

  std::size_t blocks_ = 0;
  device_array<double> sums_;
  device_array<unsigned> arrived_;
};

// ---- What kernels of SpMV do with the sum of a row

// Whether `finished` applies it: a bias has a value for each row. One for the only column is of another form.
inline bool is_finished_by_rows(const epilogue& by) { return by.bias == nullptr || by.bias_is_column; }

struct stored_as_they_are {
  static constexpr bool has_end = false;

  template <class Value, class Row>
  __device__ __forceinline__ void store(Value* y, Row row, sum_type_t<Value> sum) {
    y[row] = narrow<Value>(sum);
  }
  __device__ __forceinline__ void end() {}
};

template <class Value>
struct finished {
  static constexpr bool has_end = true;

  finishing_values<Value> by;
  const Value* x;  // of the dot product
  grid_sum_view<sum_type_t<Value>> dot;
  double mine = 0;  // of the dot product

  __device__ __forceinline__ void store(Value* y, std::int64_t row, sum_type_t<Value> sum) {
    const Value result = narrow<Value>(by(sum, y + row, row));
    y[row] = result;
    if (dot.result != nullptr) {
      mine += static_cast<double>(widen(read_only(x + row))) * static_cast<double>(widen(result));
    }
  }
  // Called by whole thread blocks, all of a grid, at the end.
  __device__ __forceinline__ void end() {
    if (dot.result != nullptr) dot.add(dot, mine);
  }
};

}  // namespace warploom::cuda
