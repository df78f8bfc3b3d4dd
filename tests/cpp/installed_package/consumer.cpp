// What <warploom/warploom.hpp> alone gives: a prediction by the profile that was installed, and a product.
#include <warploom/warploom.hpp>

int main() {
  const std::int64_t indptr[] = {0, 2, 3};
  const std::int32_t indices[] = {0, 1, 1};
  const double data[] = {1, 2, 3};
  const warploom::csr_view A{{2, 2, indptr, indices}, data, warploom::value_type::float64};
  warploom::validate(A);
  warploom::problem problem(A);
  problem.op = warploom::operation::spmv;
  problem.order = warploom::layout::column_major;

  warploom::planner planner(warploom::default_profile_folders());
  const warploom::explanation predicted = planner.predict(problem, "NVIDIA H200");
  if (predicted.gpu != "NVIDIA H200" || predicted.chosen.empty()) return 1;

  warploom::plan_options options;
  options.select = "spmv/none/csr/vector";
  double x[] = {1, 10};
  double y[] = {0, 0};
  planner.make(problem, options)->multiply({x, 2, 1, 2}, {y, 2, 1, 2});
  return y[0] == 21 && y[1] == 30 ? 0 : 1;
}
