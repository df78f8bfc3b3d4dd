// SpMV through compressed-sell: every row is summed slot by slot, each part on its own, by one thread.
#include <array>
#include <limits>

#include "kernels/compressed_sell/options.hpp"
#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "warploom/formats/compressed_sell.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_compressed_sell_vector;

namespace {

class cpu_compressed_sell_plan final : public cpu_balanced_plan<cpu_compressed_sell_plan, compressed_sell_matrix> {
 public:
  // Row r of the matrix is row row_ids[r] of the product; without `row_ids`, row r.
  cpu_compressed_sell_plan(compressed_sell_matrix matrix, std::span<const std::int32_t> row_ids)
      : cpu_balanced_plan(std::move(matrix)), row_ids_(row_ids.begin(), row_ids.end()) {
    ranges_ = balance_work(matrix_.num_slices(), [&](std::int64_t slice) {
      std::int64_t slots = 0;
      for (int part = 0; part < matrix_.options.parts; ++part) slots += segment(slice, part).num_slots();
      return slots * matrix_.slice_height();
    });
  }

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    for_each_range([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slice = begin; slice < end; ++slice) multiply_slice(slice, x, y);
    });
  }

 private:
  const sell_segment& segment(std::int64_t slice, int part) const {
    return matrix_.segments[slice * matrix_.options.parts + part];
  }

  template <class Value>
  void multiply_slice(std::int64_t slice, const Value* x, Value* y) const {
    using sum_type = accumulator_t<Value>;
    const auto* values = reinterpret_cast<const Value*>(matrix_.data.data());
    std::array<sum_type, sell_lanes * 4> sums{};
    for (int part = 0; part < matrix_.options.parts; ++part) {
      std::array<sum_type, sell_lanes * 4> of_part{};
      for_each_entry(matrix_, segment(slice, part), [&](int position, std::int64_t place, std::int32_t column) {
        of_part[position] += sum_type(values[place]) * sum_type(x[column]);
      });
      for (int p = 0; p < matrix_.slice_height(); ++p) sums[p] += of_part[p];
    }
    const std::int64_t first = slice * matrix_.slice_height();
    const std::int64_t rows = std::min<std::int64_t>(matrix_.slice_height(), matrix_.num_rows - first);
    for (std::int64_t p = 0; p < rows; ++p) {
      const std::int64_t row = matrix_.row_of(first + p);
      y[row_ids_.empty() ? row : row_ids_[row]] = Value(sums[p]);
    }
  }

  std::vector<std::int32_t> row_ids_;
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  const compressed_sell_options options = compressed_sell_options_of(request);
  if (request.perm.empty()) {
    return std::make_unique<cpu_compressed_sell_plan>(to_compressed_sell(matrix, options), request.perm);
  }
  const csr_matrix moved = permute_rows(matrix, request.perm);
  return std::make_unique<cpu_compressed_sell_plan>(to_compressed_sell(moved.view(), options), request.perm);
}

std::string rows_reason(const matrix_summary& matrix, const product_request&) {
  return matrix.num_rows > std::numeric_limits<std::int32_t>::max() ? "needs fewer than 2^31 rows" : "";
}

std::string places_reason(const csr_view& matrix, const product_request& request) {
  const compressed_sell_options options = compressed_sell_options_of(request);
  const std::int64_t places = request.perm.empty()
                                  ? compressed_sell_places(matrix, options)
                                  : compressed_sell_places(permute_rows(matrix, request.perm).view(), options);
  return compressed_sell_places_reason(places, matrix.nnz());
}

}  // namespace

std::string compressed_sell_places_reason(std::int64_t places, std::int64_t nnz) {
  if (places <= 3 * nnz + 4096) return "";
  return "would store " + std::to_string(places) + " places for " + std::to_string(nnz) +
         " nonzeros: the rows of a slice differ too much in length";
}

product_kernel spmv_compressed_sell_vector() {
  return {
      .op = operation::spmv,
      .name = "vector",
      .format = "compressed-sell",
      .summary =
          "Slices of 32 or more rows with column indices of 0 to 16 bits where they fit: a warp for each slice, "
          "a lane for each row.",
      .source = "own, on Monakov et al. 2010",
      .layouts = {layout::column_major},
      .parameters =
          {{"rows_per_lane", 2, {1, 2, 4}, {1, 2, 4}, true, "rows of each lane; a slice has 32 times as many"},
           {"sort_window",
            1,
            {1, 256, 4096},
            {1, 256},
            true,
            "consecutive rows that are sorted by length to reduce padding; 1: not sorted"},
           {"parts", 1, {1, 2, 4, 8}, {1, 4}, true, "warps that share a slice"}},
      .dtypes = all_value_types,
      .from_device = true,
      .tried_on_cpu = true,
      .for_large = true,
      .unsupported_reason = rows_reason,
      .pattern_reason = places_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_compressed_sell_vector),
  };
}

}  // namespace warploom
