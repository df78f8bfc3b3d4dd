#include "warploom/candidate.hpp"

#include <algorithm>
#include <set>

#include "support.hpp"

namespace warploom {
namespace {

TEST_CASE("names of candidates parse to themselves and are unique") {
  for (const operation op : {operation::spmm, operation::spmv}) {
    std::set<std::string> names;
    for (const candidate& c : enumerate_candidates(op, {})) {
      CHECK(names.insert(c.name()).second);
      CHECK(parse_candidate(c.name()) == c);
    }
    CHECK(names.size() > 50);
  }
}

TEST_CASE("parameters at their default are left out, and the others come in the kernel's order") {
  const candidate c = parse_candidate("spmm/lpt/csr/row_split[ unroll = 8, threads_per_row=32 ,columns_per_thread=8]");
  CHECK(c.name() == "spmm/lpt/csr/row_split[columns_per_thread=8,unroll=8]");
  CHECK(c.name_without_parameters() == "spmm/lpt/csr/row_split");
  CHECK(!c.has_default_parameters());
  CHECK(parse_candidate("spmm/none/csr/row_split").has_default_parameters());
}

TEST_CASE("the CPU varies only what it depends on, and has no kernels of the vendor") {
  for (const candidate& c : enumerate_candidates(operation::spmv, {std::nullopt, false, std::nullopt})) {
    CHECK(!c.kernel->vendor);
    for (const parameter& p : c.kernel->parameters) CHECK((p.on_cpu || c.parameters.at(p.name) == p.default_value));
  }
}

TEST_CASE("kernels of less than full precision are listed where they are asked for") {
  const auto rounding = [](product_precision precision) {
    candidate_filter filter;
    filter.precision = precision;
    std::set<std::string> labels;
    for (const candidate& c : enumerate_candidates(operation::spmm, filter)) {
      if (c.kernel->precision != product_precision::full) labels.insert(c.kernel->label());
    }
    return labels;
  };
  CHECK(rounding(product_precision::full).empty());
  CHECK(rounding(product_precision::tf32) == std::set<std::string>{"column-vectors/tensor_core_tf32",
                                                                   "dense/cublas_tf32",
                                                                   "hybrid-vectors/tensor_core_tf32"});
  CHECK(parse_precision("tf32") == product_precision::tf32);
  CHECK(parse_precision(name_of(product_precision::full)) == product_precision::full);
}

TEST_CASE("patterns") {
  CHECK(matches("spmm/lpt/csr/row_split", name_patterns{{"*/lpt/*"}}));
  CHECK(matches("a[b=1]", name_patterns{{"a[b=*]"}}));
  CHECK(!matches("ab", name_patterns{{"a[b]"}}));
  CHECK(matches("aaab", name_patterns{{"x", "*a?b"}}));
  CHECK(!matches("anything", name_patterns{std::vector<std::string>{}}));
  CHECK(matches("anything", std::nullopt));
  CHECK(!matches(std::string(5000, 'a'), name_patterns{{"*a*a*a*a*a*a*a*a*a*a*a*b"}}));  // in no time
}

TEST_CASE("every layout of an operation has one baseline on CSR") {
  for (const layout order : {layout::row_major, layout::column_major}) {
    CHECK(baseline_kernel(operation::spmm, order).format == "csr");
  }
  CHECK(baseline_kernel(operation::spmv, layout::column_major).label() == "csr/vector");
  for (const operation op : {operation::spmm, operation::spmv}) {
    std::vector<layout> seen;
    for (const product_kernel& kernel : kernels(op)) {
      for (const layout order : kernel.baseline_for) {
        CHECK(kernel.works_on(order));
        CHECK(std::count(seen.begin(), seen.end(), order) == 0);
        seen.push_back(order);
      }
    }
  }
}

TEST_CASE("default settings are redundant only of kernels that cannot pay off") {
  const matrix_summary small{100, 100, 300, 3, 3};
  for (const operation op : {operation::spmm, operation::spmv}) {
    for (const product_kernel& kernel : kernels(op)) {
      const bool hopeless = kernel.hopeless && kernel.hopeless(small);
      CHECK(is_redundant(make_candidate(kernel), small, 4, kernel.layouts.front()) == hopeless);
    }
  }
}

}  // namespace
}  // namespace warploom
