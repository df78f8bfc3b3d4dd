#include <algorithm>
#include <numeric>

#include "vectors.hpp"

namespace {

class in_host_memory : public vectors {
 public:
  explicit in_host_memory(std::int64_t size) : size_(size) {}

  std::shared_ptr<double> make(const std::vector<double>& values) override {
    auto owner = std::make_shared<std::vector<double>>(values);
    return {owner, owner->data()};
  }

  std::vector<double> to_host(const double* x) override { return {x, x + size_}; }

  double dot(const double* x, const double* y) override { return std::inner_product(x, x + size_, y, 0.0); }

  void combine(double factor, const double* x, double scale, double* y) override {
    std::transform(x, x + size_, y, y, [=](double xi, double yi) { return factor * xi + scale * yi; });
  }

 private:
  std::int64_t size_;
};

}  // namespace

std::unique_ptr<vectors> host_vectors(std::int64_t size) { return std::make_unique<in_host_memory>(size); }
