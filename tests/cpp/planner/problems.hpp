// Problems for tests of the planner, and a clock that shows known times.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/trial.hpp"
#include "support.hpp"
#include "warploom/plan.hpp"

namespace warploom::test {

// `matrix` must stay.
inline problem spmv_of(const csr_matrix& matrix) {
  problem given(matrix.view());
  given.op = operation::spmv;
  given.order = layout::column_major;
  return given;
}

// 90 rows of 1 to 7 nonzeros in 70 columns. Owns what its problems look at.
struct small_matrix {
  small_matrix() {
    std::vector<std::vector<std::int32_t>> rows(90);
    for (std::int32_t row = 0; row < 90; ++row) {
      for (std::int32_t j = 0; j <= row % 7; ++j) rows[row].push_back((row * 31 + j * 11) % 70);
    }
    csr = make_csr(70, rows);
  }

  problem spmm(std::int64_t k = 4, layout order = layout::row_major) const {
    problem given(csr.view());
    given.k = k;
    given.order = order;
    return given;
  }

  problem spmv() const { return spmv_of(csr); }

  csr_matrix csr;
};

// Times of candidates by name, in microseconds; `other` for those that are not listed. Remembers what it timed.
struct known_times {
  std::map<std::string, double> times;
  double other = 50;
  std::vector<std::string> timed{};

  timing operator()(plan& of) {
    const std::string name = of.chosen().name();
    timed.push_back(name);
    const auto found = times.find(name);
    const double time = found == times.end() ? other : found->second;
    return {time, time, time, 3};
  }
};

}  // namespace warploom::test
