// Steps of conjugate gradients on a GPU: three kernels each, the product with x . A x among them, and scalars that
// stay on the device, so that any number of steps is enqueued without waiting. As many steps at a time as the last time
// are launched as one CUDA graph.
#pragma once

#include <cstdint>
#include <memory>

#include "warploom/csr_view.hpp"
#include "warploom/plan.hpp"

namespace warploom {

// A solution, its residual r = b - A x, a direction and A times that: vectors without gaps where the plan is.
struct conjugate_gradients_vectors {
  void* x;
  void* r;
  void* p;
  void* q;

  bool operator==(const conjugate_gradients_vectors&) const = default;
};

class conjugate_gradients {
 public:
  // For a plan for vectors of a square, symmetric matrix, in float32 or float64 on a GPU. It is to outlive this.
  explicit conjugate_gradients(plan& of);
  ~conjugate_gradients();
  conjugate_gradients(const conjugate_gradients&) = delete;
  conjugate_gradients& operator=(const conjugate_gradients&) = delete;

  // p = r, for a residual that belongs to x.
  void start(const conjugate_gradients_vectors& vectors, CUstream_st* stream);
  // Enqueues so many steps. Where r is 0, or p . A p is not positive or not finite, x, r and p stay as they are, for
  // all further steps.
  void step(const conjugate_gradients_vectors& vectors, std::int64_t count, CUstream_st* stream);
  // r . r after the steps that were enqueued, for which it waits.
  double squared_residual(CUstream_st* stream) const;
  // p . A p in the last of them, for which it waits.
  double curvature(CUstream_st* stream) const;

 private:
  struct memory;

  void enqueue_step(const conjugate_gradients_vectors& vectors, int now, CUstream_st* stream);

  plan& plan_;
  std::unique_ptr<memory> memory_;
};

}  // namespace warploom
