// SpMV through CSR: rows in ranges of about equal numbers of nonzeros, each summed by one thread from its first nonzero
// to its last, so that the result does not depend on the number of threads.
#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cpu/work_ranges.hpp"
#include "kernels/spmv_plan.hpp"
#include "warploom/kernels/row_storage.hpp"

namespace warploom {
namespace {

class cpu_csr_plan final : public spmv_plan {
 public:
  explicit cpu_csr_plan(row_storage rows) : rows_(std::move(rows)) {
    ranges_ = balance_work(rows_.num_rows, [&](std::int64_t p) { return rows_.indptr[p + 1] - rows_.indptr[p]; });
  }

  void multiply(const void* x, void* y, CUstream_st*) override {
    dispatch_value_type(
        rows_.dtype, [&]<class Value>(Value) { multiply_rows(static_cast<const Value*>(x), static_cast<Value*>(y)); });
  }

  // Column indices and values count only where the plan had to copy them.
  std::size_t bytes() const override {
    return rows_.indptr.size() * sizeof(std::int64_t) + rows_.row_ids.size() * sizeof(std::int32_t) +
           ranges_.boundaries.size() * sizeof(std::int64_t) + (rows_.permuted ? rows_.permuted->bytes() : 0);
  }

 private:
  template <class Value>
  void multiply_rows(const Value* x, Value* y) const {
    const Value* values = static_cast<const Value*>(rows_.data);
    for_each_panel(ranges_, 1, 1, [&](std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t) {
      for (std::int64_t p = begin; p < end; ++p) {
        accumulator_t<Value> sum = 0;
        for (std::int64_t j = rows_.indptr[p]; j < rows_.indptr[p + 1]; ++j) sum += values[j] * x[rows_.indices[j]];
        y[rows_.row_ids.empty() ? p : rows_.row_ids[p]] = Value(sum);
      }
    });
  }

  row_storage rows_;
  work_ranges ranges_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_csr(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_csr_plan>(store_all_rows(matrix, request.perm));
}

}  // namespace warploom
