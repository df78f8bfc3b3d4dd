// SpMM through rows packed into warps, one column after another.
#include <memory>

#include "kernels/description.hpp"
#include "kernels/packed_csr/products.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmm_packed_csr_segmented_sum;

namespace {

class cpu_packed_csr_columns_plan final : public product_plan {
 public:
  explicit cpu_packed_csr_columns_plan(packed_csr matrix) : matrix_(std::move(matrix)) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st*) override {
    dispatch_value_type(matrix_.dtype, [&]<class Value>(Value) {
      for (std::int64_t column = 0; column < C.num_cols; ++column) {
        multiply_packed(matrix_, static_cast<const Value*>(B.data) + column * B.leading_dimension,
                        static_cast<Value*>(C.data) + column * C.leading_dimension);
      }
    });
  }

  std::size_t bytes() const override { return matrix_.bytes(); }
  std::vector<value_array> value_arrays() override { return {{matrix_.data.data(), matrix_.places()}}; }

 private:
  packed_csr matrix_;
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_packed_csr_columns_plan>(to_packed(
      store_all_rows(matrix, request.perm), request.parameters.at("entries_per_lane"), request.parameters.at("steps")));
}

// Half as many columns at a time would do.
bool too_wide(const matrix_summary&, const product_request& request) {
  const int width = request.parameters.at("tile_width");
  return width > 1 && width / 2 >= request.k;
}

}  // namespace

product_kernel spmm_packed_csr_segmented_sum() {
  return {
      .op = operation::spmm,
      .name = "segmented_sum",
      .format = "packed-csr",
      .summary =
          "Rows packed into warps whatever their lengths, summed by a segmented scan for a few columns at a time.",
      .source = "own",
      .layouts = {layout::column_major},
      .parameters = {{"tile_width", 2, {1, 2, 4}, {1, 2, 4}, false, "columns of C whose sums a lane holds at a time"},
                     {"entries_per_lane", 4, {1, 2, 4}, {2, 4}, true, "consecutive entries of a row in each lane"},
                     {"steps", 1, {1, 2}, {1, 2}, true, "steps of a warp, each with 32 lanes"}},
      .dtypes = all_value_types,
      .from_device = true,
      .redundant = too_wide,
      .unsupported_reason = packed_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_packed_csr_segmented_sum),
  };
}

}  // namespace warploom
