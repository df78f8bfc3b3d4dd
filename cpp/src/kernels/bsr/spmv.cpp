// SpMV through BSR: block row after block row. Zeros filled into a block are multiplied, as they are on the GPU.
#include <algorithm>
#include <array>
#include <limits>

#include "kernels/bsr/reason.hpp"
#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "warploom/formats/bsr.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_bsr_vector;

namespace {

class cpu_bsr_plan final : public cpu_balanced_plan<cpu_bsr_plan, bsr_matrix> {
 public:
  explicit cpu_bsr_plan(bsr_matrix matrix) : cpu_balanced_plan(std::move(matrix)) {
    matrix_.occupied = {};  // for the conversion back to CSR only
    ranges_ = balance_work(matrix_.num_block_rows(), [&](std::int64_t b) {
      return (matrix_.indptr[b + 1] - matrix_.indptr[b]) * matrix_.block.places();
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
    const std::int64_t size = matrix_.block.rows;
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

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_bsr_plan>(to_bsr(matrix, request.parameters.at("block_size")));
}

std::string pattern_reason(const csr_view& matrix, const product_request& request) {
  const bool repeats = size_of(matrix.dtype) == 2 && has_repeated_entries(matrix);
  const int size = request.parameters.at("block_size");
  const std::int64_t places = repeats ? 0 : bsr_places(matrix, size);
  return bsr_reason(matrix.dtype, {size, size}, repeats, places, matrix.nnz());
}

}  // namespace

std::string bsr_reason(value_type dtype, block_shape block, bool repeats, std::int64_t places, std::int64_t nnz) {
  // Their sum would be rounded to two bytes before it is multiplied with x.
  if (size_of(dtype) == 2 && repeats) return "would add repeated entries";
  const int times = block.cols == 1 ? block.rows / column_vector.rows : 1;
  const std::string reason = padding_reason(places, nnz, times);
  if (!reason.empty()) return reason;
  return places > std::numeric_limits<std::int32_t>::max() ? "needs fewer than 2^31 places" : "";
}

product_kernel spmv_bsr_vector() {
  return {
      .op = operation::spmv,
      .name = "vector",
      .format = "bsr",
      .summary =
          "threads_per_block_row threads for each row of blocks. Zeros filled into a block are multiplied, as in "
          "SciPy's BSR: a NaN or infinity in x reaches every row of the blocks in its column.",
      .source = "-",
      .layouts = {layout::column_major},
      .parameters = {{"block_size", 2, {2, 4, 8}, {2, 4, 8}, true, "rows and columns of a block"},
                     {"threads_per_block_row",
                      8,
                      {4, 8, 16, 32},
                      {8, 16, 32},
                      false,
                      "threads that share a row of blocks; at least as many as are needed to load one block"}},
      .dtypes = all_value_types,
      .permutes = false,
      .from_device = true,
      .unsupported_reason = no_reason,
      .pattern_reason = pattern_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_bsr_vector),
  };
}

}  // namespace warploom
