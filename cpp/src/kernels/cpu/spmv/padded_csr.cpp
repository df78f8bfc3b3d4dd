// SpMV through rows padded to one length: a row ends at its first place without an entry.
#include "warploom/formats/padded_csr.hpp"

#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/spmv_plan.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

class cpu_padded_csr_plan final : public spmv_plan {
 public:
  explicit cpu_padded_csr_plan(padded_csr matrix) : matrix_(std::move(matrix)) {}

  void multiply(const void* x, void* y, CUstream_st*) override {
    dispatch_value_type(matrix_.dtype, [&]<class Value>(Value) {
      multiply_rows(static_cast<const Value*>(x), static_cast<Value*>(y));
    });
  }

  std::size_t bytes() const override { return matrix_.bytes(); }

 private:
  template <class Value>
  void multiply_rows(const Value* x, Value* y) const {
    constexpr std::int64_t entries_per_thread = 1 << 16;
    const std::int64_t grain = entries_per_thread / (matrix_.width + 1) + 1;
    parallel_for(0, matrix_.num_rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int32_t* indices = matrix_.indices.data() + p * matrix_.width;
        const Value* values = reinterpret_cast<const Value*>(matrix_.data.data()) + p * matrix_.width;
        accumulator_t<Value> sum = 0;
        for (int j = 0; j < matrix_.width && indices[j] >= 0; ++j) sum += values[j] * x[indices[j]];
        y[matrix_.row_ids.empty() ? p : matrix_.row_ids[p]] = Value(sum);
      }
    });
  }

  padded_csr matrix_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_padded_csr(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_padded_csr_plan>(to_padded(store_all_rows(matrix, request.perm)));
}

}  // namespace warploom
