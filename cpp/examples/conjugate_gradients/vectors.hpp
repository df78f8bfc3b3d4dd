// The vectors of conjugate gradients, where the plan is: in host memory or in the memory of a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

class vectors {
 public:
  virtual ~vectors() = default;

  // A vector with these values.
  virtual std::shared_ptr<double> make(const std::vector<double>& values) = 0;
  virtual std::vector<double> to_host(const double* x) = 0;

  virtual double dot(const double* x, const double* y) = 0;
  // y = factor x + scale y
  virtual void combine(double factor, const double* x, double scale, double* y) = 0;
};

std::unique_ptr<vectors> host_vectors(std::int64_t size);
std::unique_ptr<vectors> device_vectors(std::int64_t size);  // on the current GPU; in builds with CUDA
