// SpMV through BSR: block row after block row. Zeros filled into a block are multiplied, as they are on the GPU.
#include <algorithm>
#include <array>

#include "kernels/cpu/spmv/format_plan.hpp"
#include "kernels/cpu/spmv/prepare.hpp"
#include "warploom/formats/bsr.hpp"

namespace warploom {
namespace {

class cpu_bsr_plan final : public cpu_balanced_plan<cpu_bsr_plan, bsr_matrix> {
 public:
  explicit cpu_bsr_plan(bsr_matrix matrix) : cpu_balanced_plan(std::move(matrix)) {
    matrix_.occupied = {};  // for the way back only
    ranges_ = balance_work(matrix_.num_block_rows(), [&](std::int64_t b) {
      return (matrix_.indptr[b + 1] - matrix_.indptr[b]) * matrix_.block_size * matrix_.block_size;
    });
  }

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    for_each_range([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) multiply_block_row(b, x, y);
    });
  }

 private:
  template <class Value>
  void multiply_block_row(std::int64_t block_row, const Value* x, Value* y) const {
    const std::int64_t size = matrix_.block_size;
    const auto* values = reinterpret_cast<const Value*>(matrix_.data.data());
    std::array<accumulator_t<Value>, 8> sums{};
    for (std::int64_t block = matrix_.indptr[block_row]; block < matrix_.indptr[block_row + 1]; ++block) {
      const std::int64_t column = matrix_.indices[block] * size;
      const std::int64_t columns = std::min(size, matrix_.num_cols - column);
      for (std::int64_t i = 0; i < size; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) sums[i] += values[(block * size + i) * size + j] * x[column + j];
      }
    }
    const std::int64_t first = block_row * size;
    for (std::int64_t i = 0; i < std::min(size, matrix_.num_rows - first); ++i) y[first + i] = Value(sums[i]);
  }
};

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_bsr(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_bsr_plan>(to_bsr(matrix, request.parameters.at("block_size")));
}

}  // namespace warploom
