#include <algorithm>

#include "device/replay.hpp"
#include "device/runtime.hpp"
#include "device/workspace.hpp"
#include "kernels/device/finish.cuh"
#include "warploom/conjugate_gradients.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;
constexpr int blocks_per_multiprocessor = 8;

template <class Value>
__global__ void __launch_bounds__(threads_per_block)
    start_kernel(std::int64_t size, const Value* __restrict__ r, Value* __restrict__ p,
                 const cuda::grid_sum_view<double> rho) {
  const std::int64_t stride = std::int64_t{gridDim.x} * threads_per_block;
  double sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x; i < size; i += stride) {
    const Value value = r[i];
    p[i] = value;
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  rho.add(rho, sum);
}

// Whether there is a step along p. Otherwise x, r and p stay, and so there is none later: r vanishes, A is not positive
// definite, or something is not finite, which is not to spread to x.
template <class Value>
__device__ __forceinline__ bool steps_along(Value curvature) {
  return curvature > 0 && isfinite(curvature);
}

// x += rho / curvature p, r -= rho / curvature q; the new rho is r . r.
template <class Value>
__global__ void __launch_bounds__(threads_per_block)
    update_kernel(std::int64_t size, const Value* __restrict__ p, const Value* __restrict__ q, Value* __restrict__ x,
                  Value* __restrict__ r, const Value* curvature, const double* rho,
                  const cuda::grid_sum_view<double> next_rho) {
  if (!steps_along(*curvature)) {  // then in no thread block
    if (blockIdx.x == 0 && threadIdx.x == 0) *next_rho.result = *rho;
    return;
  }
  const auto length = static_cast<Value>(*rho / static_cast<double>(*curvature));
  const std::int64_t stride = std::int64_t{gridDim.x} * threads_per_block;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x; i < size; i += stride) {
    x[i] += length * p[i];
    const Value value = r[i] - length * q[i];
    r[i] = value;
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  next_rho.add(next_rho, sum);
}

// p = r + rho / previous p.
template <class Value>
__global__ void __launch_bounds__(threads_per_block)
    turn_kernel(std::int64_t size, const Value* __restrict__ r, Value* __restrict__ p, const Value* curvature,
                const double* rho, const double* previous) {
  if (!steps_along(*curvature)) return;
  const auto share = static_cast<Value>(*previous > 0 ? *rho / *previous : 0.0);
  const std::int64_t stride = std::int64_t{gridDim.x} * threads_per_block;
#pragma unroll 4
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x; i < size; i += stride) {
    p[i] = r[i] + share * p[i];
  }
}

template <class Function>
void dispatch(value_type dtype, Function function) {
  if (dtype == value_type::float32) return function(float{});
  function(double{});
}

// What steps depend on beside the plan.
struct several_steps {
  conjugate_gradients_vectors vectors;
  std::int64_t count;
  int first_rho;
  std::int64_t plan_version;

  bool operator==(const several_steps&) const = default;
};

bool is_alike(const several_steps& a, const several_steps& b) { return a.plan_version == b.plan_version; }

}  // namespace

struct conjugate_gradients::memory {
  std::int64_t size;
  unsigned blocks;
  cuda::device_array<double> scalars{4, allocate_device_memory};  // two of rho, and p . q
  cuda::grid_sum_workspace sums{};
  int now = 0;                         // which rho
  replays<several_steps> recorded{2};  // a solver takes many at a time

  double* rho(int which) const { return scalars.data() + which; }
  void* curvature() const { return scalars.data() + 2; }
};

conjugate_gradients::conjugate_gradients(plan& of) : plan_(of) {
  if (of.device() < 0) throw error(error_kind::device, "plan", -1, "these steps are for plans on a GPU");
  if (size_of(of.dtype()) < 4) {
    throw error(error_kind::dtype, "plan", -1, "conjugate gradients need float32 or float64");
  }
  const device_guard guard(of.device());
  const std::int64_t n = of.num_rows();
  const auto most =
      static_cast<unsigned>(cuda::device_attribute(cudaDevAttrMultiProcessorCount) * blocks_per_multiprocessor);
  const unsigned blocks = std::clamp(cuda::blocks_for(n, threads_per_block), 1u, most);
  memory_.reset(new memory{n, blocks});  // CUDA 12.4 has no parentheses for aggregates, so no std::make_unique
}

conjugate_gradients::~conjugate_gradients() {
  try {
    const device_guard guard(plan_.device());
    memory_.reset();
  } catch (const error&) {
    // There is nothing to free on a device that has failed.
  }
}

void conjugate_gradients::start(const conjugate_gradients_vectors& vectors, CUstream_st* stream) {
  const device_guard guard(plan_.device());
  memory& kept = *memory_;
  if (!kept.sums.reserve(kept.blocks, stream)) {
    throw error(error_kind::parameter, "stream", -1, "the first steps cannot be captured in a graph");
  }
  kept.now = 0;
  dispatch(plan_.dtype(), [&]<class Value>(Value) {
    start_kernel<<<kept.blocks, threads_per_block, 0, stream>>>(kept.size, static_cast<const Value*>(vectors.r),
                                                                static_cast<Value*>(vectors.p),
                                                                kept.sums.view<double>(kept.rho(0)));
  });
  cuda::check_launch("start_kernel");
}

void conjugate_gradients::step(const conjugate_gradients_vectors& vectors, std::int64_t count, CUstream_st* stream) {
  const device_guard guard(plan_.device());
  memory& kept = *memory_;
  const int first = kept.now;
  const auto enqueue = [&](CUstream_st* on) {
    for (std::int64_t i = 0; i < count; ++i) enqueue_step(vectors, (first + i) % 2, on);
  };
  plan_.in_order(stream, [&] { kept.recorded.enqueue({vectors, count, first, plan_.version()}, stream, enqueue); });
  kept.now = static_cast<int>((first + count) % 2);
}

void conjugate_gradients::enqueue_step(const conjugate_gradients_vectors& vectors, int now, CUstream_st* stream) {
  const memory& kept = *memory_;
  const std::int64_t n = kept.size;
  const std::int64_t apart = plan_.order() == layout::row_major ? 1 : n;
  plan_.multiply_with_dot({vectors.p, n, 1, apart}, {vectors.q, n, 1, apart}, kept.curvature(), stream);
  const double* const rho = kept.rho(now);
  double* const next = kept.rho(1 - now);
  dispatch(plan_.dtype(), [&]<class Value>(Value) {
    auto* const p = static_cast<Value*>(vectors.p);
    auto* const r = static_cast<Value*>(vectors.r);
    const auto* const curvature = static_cast<const Value*>(kept.curvature());
    update_kernel<<<kept.blocks, threads_per_block, 0, stream>>>(n, p, static_cast<const Value*>(vectors.q),
                                                                 static_cast<Value*>(vectors.x), r, curvature, rho,
                                                                 kept.sums.view<double>(next));
    cuda::check_launch("update_kernel");
    turn_kernel<<<kept.blocks, threads_per_block, 0, stream>>>(n, r, p, curvature, next, rho);
    cuda::check_launch("turn_kernel");
  });
}

double conjugate_gradients::squared_residual(CUstream_st* stream) const {
  const device_guard guard(plan_.device());
  return cuda::read_back(memory_->rho(memory_->now), stream);
}

double conjugate_gradients::curvature(CUstream_st* stream) const {
  const device_guard guard(plan_.device());
  const void* const from = memory_->curvature();
  if (plan_.dtype() == value_type::float32) return cuda::read_back(static_cast<const float*>(from), stream);
  return cuda::read_back(static_cast<const double*>(from), stream);
}

}  // namespace warploom
