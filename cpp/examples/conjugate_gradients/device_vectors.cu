#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "vectors.hpp"
#include "warploom/device.hpp"

namespace {

constexpr int threads = 256;
constexpr int max_blocks = 256;

__global__ void combine_kernel(std::int64_t size, double factor, const double* x, double scale, double* y) {
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride) {
    y[i] = factor * x[i] + scale * y[i];
  }
}

// One partial sum per block; the host adds them up, always in the same order.
__global__ void dot_kernel(std::int64_t size, const double* x, const double* y, double* partial) {
  __shared__ double sums[threads];
  double sum = 0;
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride) sum += x[i] * y[i];
  sums[threadIdx.x] = sum;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
}

class in_device_memory : public vectors {
 public:
  explicit in_device_memory(std::int64_t size)
      : size_(size),
        blocks_(static_cast<int>(std::min<std::int64_t>(max_blocks, (size + threads - 1) / threads))),
        partial_(blocks_),
        device_partial_(allocate(blocks_)) {}

  std::shared_ptr<double> make(const std::vector<double>& values) override {
    auto vector = allocate(size_);
    warploom::copy_to_device(vector.get(), values.data(), size_ * sizeof(double), nullptr);
    return vector;
  }

  std::vector<double> to_host(const double* x) override {
    std::vector<double> values(size_);
    warploom::copy_to_host(values.data(), x, size_ * sizeof(double), nullptr);
    return values;
  }

  double dot(const double* x, const double* y) override {
    dot_kernel<<<blocks_, threads>>>(size_, x, y, device_partial_.get());
    check_launch();
    warploom::copy_to_host(partial_.data(), device_partial_.get(), blocks_ * sizeof(double), nullptr);
    return std::accumulate(partial_.begin(), partial_.end(), 0.0);
  }

  void combine(double factor, const double* x, double scale, double* y) override {
    combine_kernel<<<blocks_, threads>>>(size_, factor, x, scale, y);
    check_launch();
  }

 private:
  static std::shared_ptr<double> allocate(std::int64_t size) {
    return std::static_pointer_cast<double>(warploom::allocate_device_memory(size * sizeof(double)));
  }

  static void check_launch() {
    if (const cudaError_t status = cudaGetLastError()) throw std::runtime_error(cudaGetErrorString(status));
  }

  std::int64_t size_;
  int blocks_;
  std::vector<double> partial_;
  std::shared_ptr<double> device_partial_;
};

}  // namespace

std::unique_ptr<vectors> device_vectors(std::int64_t size) { return std::make_unique<in_device_memory>(size); }
