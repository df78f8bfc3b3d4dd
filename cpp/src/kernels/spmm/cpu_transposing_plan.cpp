#include "kernels/spmm/cpu_transposing_plan.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/work_ranges.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

// to[j * ldto + i] = from[i * ldfrom + j] for i < rows, j < cols, tile by tile so that both sides stay in the cache.
template <class Value>
void transpose(const Value* from, std::int64_t ldfrom, Value* to, std::int64_t ldto, std::int64_t rows,
               std::int64_t cols) {
  constexpr std::int64_t tile = 32;
  constexpr std::int64_t elements_per_thread = 1 << 16;  // that are worth a thread
  const std::int64_t threads = std::min<std::int64_t>(num_threads(), rows * cols / elements_per_thread);
  for_each_together((cols + tile - 1) / tile, static_cast<int>(threads), [&](std::int64_t panel) {
    const std::int64_t begin = panel * tile, end = std::min(cols, begin + tile);
    for (std::int64_t first = 0; first < rows; first += tile) {
      const std::int64_t last = std::min(rows, first + tile);
      for (std::int64_t j = begin; j < end; ++j) {
        for (std::int64_t i = first; i < last; ++i) to[j * ldto + i] = from[i * ldfrom + j];
      }
    }
  });
}

template <class Value>
class transposing_plan final : public product_plan {
 public:
  explicit transposing_plan(std::unique_ptr<product_plan> inner) : inner_(std::move(inner)) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    const std::int64_t k = C.num_cols;
    B_.resize(B.num_rows * k);
    C_.resize(C.num_rows * k);
    transpose(static_cast<const Value*>(B.data), B.leading_dimension, B_.data(), k, k, B.num_rows);
    inner_->run({B_.data(), B.num_rows, k, k}, {C_.data(), C.num_rows, k, k}, stream);
    transpose(C_.data(), k, static_cast<Value*>(C.data), C.leading_dimension, C.num_rows, k);
  }

  std::size_t bytes() const override { return inner_->bytes() + (B_.size() + C_.size()) * sizeof(Value); }
  std::vector<value_array> value_arrays() override { return inner_->value_arrays(); }

 private:
  std::unique_ptr<product_plan> inner_;
  std::vector<Value> B_;
  std::vector<Value> C_;
};

}  // namespace

std::unique_ptr<product_plan> make_cpu_transposing_plan(std::unique_ptr<product_plan> inner, value_type dtype) {
  return dispatch_wide_value_type(dtype, [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<transposing_plan<decltype(value)>>(std::move(inner));
  });
}

std::unique_ptr<product_plan> in_requested_order(std::unique_ptr<product_plan> row_major, value_type dtype,
                                                 layout order) {
  if (order == layout::row_major) return row_major;
  return make_cpu_transposing_plan(std::move(row_major), dtype);
}

}  // namespace warploom
