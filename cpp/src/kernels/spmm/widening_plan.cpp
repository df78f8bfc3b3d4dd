#include "kernels/spmm/widening_plan.hpp"

#include <utility>
#include <vector>

#include "cpu_clones.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t values_per_thread = 1 << 15;

WARPLOOM_CPU_CLONES("avx2", "avx512f")
void widen_line(const float16* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

WARPLOOM_CPU_CLONES("avx2", "avx512f")
void widen_line(const bfloat16* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

WARPLOOM_CPU_CLONES("avx2", "avx512f")
void round_line(const float* from, float16* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = float16(from[i]);
}

WARPLOOM_CPU_CLONES("avx2", "avx512f")
void round_line(const float* from, bfloat16* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = bfloat16(from[i]);
}

// Calls function(float16{}) or function(bfloat16{}).
template <class Function>
void dispatch_half(value_type dtype, Function function) {
  if (dtype == value_type::float16) return function(float16{});
  function(bfloat16{});
}

// Calls visit(line) for lines of `length` elements.
template <class Visit>
void for_each_line(std::int64_t lines, std::int64_t length, Visit visit) {
  const std::int64_t grain = values_per_thread / (length + 1) + 1;
  parallel_for(0, lines, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) visit(line);
  });
}

class widening_plan final : public product_plan {
 public:
  widening_plan(std::unique_ptr<product_plan> inner, value_type dtype, layout order)
      : inner_(std::move(inner)), dtype_(dtype), order_(order) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    const dense_view b = room_for(B, B_), c = room_for(C, C_);
    dispatch_half(dtype_, [&]<class Value>(Value) {
      for_each_line(lines(B), length(B), [&](std::int64_t i) {
        widen_line(static_cast<const Value*>(B.data) + i * B.leading_dimension,
                   static_cast<float*>(b.data) + i * b.leading_dimension, length(B));
      });
      inner_->run(b, c, stream);
      for_each_line(lines(C), length(C), [&](std::int64_t i) {
        round_line(static_cast<const float*>(c.data) + i * c.leading_dimension,
                   static_cast<Value*>(C.data) + i * C.leading_dimension, length(C));
      });
    });
  }

  std::size_t bytes() const override { return inner_->bytes() + (B_.size() + C_.size()) * sizeof(float); }

 private:
  std::int64_t lines(const dense_view& view) const {
    return order_ == layout::row_major ? view.num_rows : view.num_cols;
  }
  std::int64_t length(const dense_view& view) const {
    return order_ == layout::row_major ? view.num_cols : view.num_rows;
  }
  dense_view room_for(const dense_view& view, std::vector<float>& room) const {
    room.resize(lines(view) * length(view));
    return {room.data(), view.num_rows, view.num_cols, length(view)};
  }

  std::unique_ptr<product_plan> inner_;
  value_type dtype_;
  layout order_;
  std::vector<float> B_;
  std::vector<float> C_;
};

}  // namespace

namespace detail {

csr_view widened(const csr_view& matrix, std::vector<float>& values) {
  const std::int64_t nnz = matrix.nnz();
  values.resize(nnz);
  dispatch_half(matrix.dtype, [&]<class Value>(Value) {
    parallel_for(0, nnz, values_per_thread, [&](std::int64_t begin, std::int64_t end) {
      widen_line(matrix.values<Value>() + begin, values.data() + begin, end - begin);
    });
  });
  csr_view wide = matrix;
  wide.data = values.data();
  wide.dtype = value_type::float32;
  return wide;
}

std::unique_ptr<product_plan> make_widening_plan(std::unique_ptr<product_plan> inner, value_type dtype, layout order) {
  return std::make_unique<widening_plan>(std::move(inner), dtype, order);
}

}  // namespace detail
}  // namespace warploom
