#include "kernels/spmm/rows_plan.hpp"

#include <utility>

namespace warploom {
namespace {

std::vector<std::int32_t> find_unstored_rows(const row_storage& rows) {
  std::vector<std::int32_t> unstored;
  if (rows.stores_every_row()) return unstored;
  std::vector<bool> stored(rows.num_rows, false);
  for (const std::int32_t row : rows.row_ids) stored[row] = true;
  for (std::int64_t row = 0; row < rows.num_rows; ++row) {
    if (!stored[row]) unstored.push_back(static_cast<std::int32_t>(row));
  }
  return unstored;
}

template <class Value>
std::size_t bytes_of(const std::vector<Value>& values) {
  return values.size() * sizeof(Value);
}

class rows_plan final : public product_plan {
 public:
  rows_plan(row_storage rows, const parameter_values& parameters, rows_kernel kernel)
      : rows_(own_arrays(std::move(rows))), parameters_(parameters), kernel_(kernel) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st*) override { kernel_(rows_, parameters_, B, C); }

  std::size_t bytes() const override {
    return bytes_of(rows_.rows.indptr) + bytes_of(rows_.rows.row_ids) + bytes_of(rows_.ranges.boundaries) +
           bytes_of(rows_.unstored_rows) + rows_.rows.owner->bytes();
  }
  std::vector<value_array> value_arrays() override { return {rows_.rows.own_values()}; }

 private:
  balanced_rows rows_;
  parameter_values parameters_;
  rows_kernel kernel_;
};

}  // namespace

balanced_rows::balanced_rows(row_storage stored) : rows(std::move(stored)) {
  ranges = balance_work(rows.num_stored_rows(), [&](std::int64_t p) { return rows.indptr[p + 1] - rows.indptr[p]; });
  unstored_rows = find_unstored_rows(rows);
}

std::unique_ptr<product_plan> make_rows_plan(row_storage rows, const parameter_values& parameters, rows_kernel kernel) {
  return std::make_unique<rows_plan>(std::move(rows), parameters, kernel);
}

}  // namespace warploom
