// What is public, run out of memory at every allocation in turn: it says so or does its work all the same, leaks
// nothing, and works the next time. The same without the threads that it would like to have.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "allocation_failure.hpp"
#include "planner/linear_model.hpp"
#include "planner/measuring.hpp"
#include "planner/predicting.hpp"
#include "planner/problems.hpp"
#include "support.hpp"
#include "warploom/warploom.hpp"

namespace warploom {
namespace {

const std::filesystem::path toy = WARPLOOM_TEST_DATA "/toy-profile.safetensors";

struct threads_for_scope {
  explicit threads_for_scope(int count) { set_num_threads(count); }
  ~threads_for_scope() { set_num_threads(0); }
};

// Enough rows for several threads. Rows are empty, short and long, columns repeat and are not sorted.
csr_matrix uneven_matrix(std::int32_t num_rows = 700) {
  std::vector<std::vector<std::int32_t>> rows(num_rows);
  for (std::int32_t row = 0; row < num_rows; ++row) {
    for (std::int32_t j = 0; j < row % 7 * (row % 50 == 6 ? 2 : 1); ++j) rows[row].push_back((row * 31 + j * 11) % 500);
  }
  return test::make_csr(500, rows);
}

struct operation_under_test {
  std::string name;
  std::function<std::string()> run;  // returns what it found, the same every time
};

template <class Range>
std::string text_of(const Range& values) {
  return {reinterpret_cast<const char*>(std::data(values)), std::size(values) * sizeof(*std::data(values))};
}

std::string text_of(const csr_matrix& matrix) {
  return text_of(matrix.indptr) + text_of(matrix.indices) + text_of(matrix.data);
}

// A product with the plan, whatever its candidate: sums of small integers are exact.
std::string product_by(plan& prepared, std::int64_t k) {
  const bool by_row = prepared.order() == layout::row_major;
  std::vector<float> B(prepared.num_cols() * k), C(prepared.num_rows() * k, -1.0f);
  for (std::size_t i = 0; i < B.size(); ++i) B[i] = static_cast<float>(i % 3);
  prepared.multiply({B.data(), prepared.num_cols(), k, by_row ? k : prepared.num_cols()},
                    {C.data(), prepared.num_rows(), k, by_row ? k : prepared.num_rows()});
  return text_of(C);
}

problem problem_of(const csr_matrix& matrix, operation op, layout order) {
  problem given(matrix.view());
  given.op = op;
  given.order = op == operation::spmv ? layout::column_major : order;
  given.k = op == operation::spmv ? 1 : 3;
  return given;
}

std::vector<operation_under_test> conversions(const csr_matrix& A) {
  std::vector<operation_under_test> all;
  for (const format_description& format : formats()) {
    all.push_back({"format " + format.name, [&] {
                     const auto stored = store(format, A.view(), {});
                     std::string found = std::to_string(stored->bytes());
                     for (const format_field& field : stored->fields()) {
                       found += field.name;
                       if (const auto* make = std::get_if<made_array>(&field.value))
                         found += std::to_string((*make)().size);
                     }
                     return found + text_of(stored->to_csr());
                   }});
  }
  return all;
}

// Every kernel in the caller's order, and each permutation once.
std::vector<operation_under_test> products(const csr_matrix& A) {
  std::vector<operation_under_test> all;
  const auto add = [&](const candidate& chosen, layout order) {
    const std::string name = chosen.name();
    all.push_back({"product " + name + " " + name_of(order), [&A, chosen, order] {
                     problem given = problem_of(A, chosen.kernel->op, order);
                     given.updatable = true;
                     planner planning({});
                     plan_options options;
                     options.select = chosen.name();
                     const auto prepared = planning.make(given, options);
                     std::string found = product_by(*prepared, given.k);
                     prepared->update_values(given.matrix().data);
                     const std::string again = product_by(*prepared, given.k);
                     return found == again ? found : "not the same after updating";
                   }});
  };
  for (const operation op : {operation::spmv, operation::spmm}) {
    for (const product_kernel& kernel : kernels(op)) {
      if (!kernel.runs_on_cpu() || !kernel.works_on(value_type::float32)) continue;
      for (const layout order : kernel.layouts) {
        const candidate chosen = make_candidate(kernel);
        const problem given = problem_of(A, op, order);
        product_request request;
        request.k = given.k;
        request.order = given.order;
        request.parameters = chosen.parameters;
        if (reason_against(kernel, given.matrix(), request).empty()) add(chosen, order);
      }
    }
  }
  for (const permutation_algorithm& algorithm : permutation_algorithms()) {
    add(make_candidate(find_kernel(operation::spmv, "csr", "vector"), algorithm.name), layout::column_major);
  }
  return all;
}

std::vector<operation_under_test> analyses(const csr_matrix& A) {
  std::vector<operation_under_test> all;
  all.push_back({"validation", [&] {
                   validate(A.view());
                   return std::string();
                 }});
  all.push_back({"refusal", [&] {
                   csr_pattern wrong = A.view();
                   wrong.num_cols = 7;
                   try {
                     validate(wrong);
                   } catch (const error& refused) {
                     if (refused.kind() == error_kind::invalid_matrix) return std::string(refused.what());
                     throw;
                   }
                   return std::string("accepted");
                 }});
  for (const permutation_algorithm& algorithm : permutation_algorithms()) {
    all.push_back({std::string("permutation ") + algorithm.name, [&] {
                     const row_permutation perm = algorithm.compute(A.view(), geometry{});
                     validate_permutation(perm, A.num_rows);
                     return text_of(perm) + text_of(invert(perm)) + text_of(permute_rows(A.view(), perm));
                   }});
  }
  for (const feature_set& features : feature_sets()) {
    all.push_back({std::string("features ") + features.name, [&] {
                     std::vector<double> values(features.names.size());
                     features.compute(A.view(), geometry{}, values.data());
                     return text_of(values);
                   }});
  }
  all.push_back({"partition", [&] {
                   const row_partition blocks = partition_rows(A.indptr, 64);
                   return text_of(blocks.row_block) + text_of(share_thread_blocks(blocks, 1000)) +
                          text_of(threads_per_row_of_blocks(blocks, 8, {}));
                 }});
  all.push_back({"lines", [] {
                   entry_lines lines(2, true);
                   return std::to_string(lines.check(std::string_view("1 1 1\n2 2 x\n")));
                 }});
  all.push_back({"JSON", [] {
                   const json parsed = parse_json(R"({"a": [1, 2.5, "three", {"four": [null, true]}], "b": "\u00e4"})");
                   return *parsed.find("b")->as_string();
                 }});
  all.push_back({"names", [] {
                   std::string joined;
                   for (const candidate& listed : enumerate_candidates(operation::spmv, {})) joined += listed.name();
                   return joined + parse_candidate("spmv/lpt/csr/vector[threads_per_row=8]").name();
                 }});
  return all;
}

// Without folders of profiles: std::filesystem of GCC ends the process if it lacks memory for the name of a file.
std::vector<operation_under_test> choices(const csr_matrix& A) {
  std::vector<operation_under_test> all;
  all.push_back({"profile", [] {
                   const auto loaded = load_profile(toy);
                   const trained_model& forest = *loaded->models.at("forest");
                   const std::vector<double> inputs(forest.inputs().size(), 0.5);
                   std::vector<double> outputs(forest.outputs().size());
                   forest.evaluated().predict(inputs, outputs);
                   return loaded->gpu + text_of(outputs);
                 }});
  all.push_back({"planning by measurement", [&] {
                   const problem given = problem_of(A, operation::spmv, layout::column_major);
                   planner planning({});
                   plan_options options;
                   options.select = "measure";
                   options.patterns = name_patterns{{"spmv/none/csr/vector"}};
                   const auto planned = planning.make(given, options);
                   return product_by(*planned, 1) + planned->why().chosen;
                 }});
  all.push_back({"planning by prediction", [&] {
                   const problem given = problem_of(A, operation::spmv, layout::column_major);
                   const auto made = std::make_shared<profile>();
                   made->models["spmv-float32-warm"] =
                       test::linear({"log_rows"}, {{"reference", 0}, {"loss", 0.1f}, {"spmv/none/csr/vector", 0}});
                   made->models["preparation-spmv-float32"] = test::linear({"one"}, {{"spmv/none/csr/vector", 0.1f}});
                   made->metrics = parse_json(
                       R"({"selectors": {"spmv-float32-warm": {"margin": 1e-6, "unsure_loss": 0.2, "sizes": {}}}})");
                   const auto source =
                       std::make_shared<const prediction_source>(prediction_source{selector(made), "some GPU", ""});
                   const auto planned = plan_by_prediction(given, source, {}, {});
                   return product_by(*planned, 1) + planned->why().chosen;
                 }});
  all.push_back({"measuring", [&] {
                   const problem given = problem_of(A, operation::spmv, layout::column_major);
                   test::known_times clock{{{"spmv/none/ell/vector", 3}}};
                   measuring_options options;
                   options.timer = std::ref(clock);
                   measuring session(given, options);
                   session.measure_all(name_patterns{{"spmv/none/*/vector"}}, {});
                   const auto best = session.take_best();
                   return best ? product_by(*best, 1) : throw std::bad_alloc();
                 }});
  return all;
}

// What became of a run: what it found, or that memory did not suffice; anything else leaves the test.
std::string outcome_of(const operation_under_test& operation) {
  try {
    return operation.run();
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const error& failure) {
    if (failure.kind() != error_kind::out_of_memory) throw;
    return "out of memory";
  }
}

struct tally {
  int failures = 0;  // allocations that failed
  int refused = 0;   // of which the operation said so
};

void run_out_of_memory(const operation_under_test& operation, test::failing which, tally& counted) {
  CAPTURE(operation.name);
  CAPTURE(static_cast<int>(which));
  std::string expected = operation.run();
  expected = operation.run();  // what is made once is there
  REQUIRE(expected != "out of memory");
  // All of the first ones, then fewer and fewer.
  for (int countdown = 0, happened = true; happened; countdown += 1 + countdown / 40) {
    CAPTURE(countdown);
    std::string found, unexpected;
    const std::int64_t before = test::live_allocations();
    {
      std::string outcome, what;
      try {
        const test::allocation_failure failure(countdown, which);
        try {
          outcome = outcome_of(operation);
        } catch (...) {
          happened = failure.happened();
          throw;
        }
        happened = failure.happened();
      } catch (const std::exception& other) {
        what = other.what();
      }
      found.swap(outcome);
      unexpected.swap(what);
    }
    const std::int64_t held = (found.capacity() > 15) + (unexpected.capacity() > 15);  // by the two strings
    const std::int64_t leaked = test::live_allocations() - before - held;
    CHECK(unexpected == "");
    CHECK(leaked == 0);
    CHECK((found == expected || (happened && found == "out of memory")));
    CHECK((!happened || operation.run() == expected));
    counted.failures += happened;
    counted.refused += found == "out of memory";
  }
}

void run_all_out_of_memory(const std::vector<operation_under_test>& operations) {
  const threads_for_scope scope(3);
  tally counted;
  for (const operation_under_test& operation : operations) {
    for (const test::failing which : {test::failing::one, test::failing::one_of_all, test::failing::all_from_then_on}) {
      run_out_of_memory(operation, which, counted);
    }
  }
  MESSAGE(operations.size() << " operations, " << counted.failures << " failures, " << counted.refused << " refusals");
  CHECK(counted.refused > static_cast<int>(operations.size()));
}

#ifdef __GLIBC__
void run_all_without_threads(const std::vector<operation_under_test>& operations) {
  const threads_for_scope scope(3);
  for (const operation_under_test& operation : operations) {
    CAPTURE(operation.name);
    const std::string expected = operation.run();
    const test::no_new_threads alone;
    CHECK(operation.run() == expected);
  }
}
#endif

}  // namespace

TEST_CASE("analyses run out of memory") {
  const csr_matrix A = uneven_matrix();
  run_all_out_of_memory(analyses(A));
}

TEST_CASE("conversions run out of memory") {
  const csr_matrix A = uneven_matrix(9000);  // so many that threads share the work
  run_all_out_of_memory(conversions(A));
}

TEST_CASE("products run out of memory") {
  const csr_matrix A = uneven_matrix();
  run_all_out_of_memory(products(A));
}

TEST_CASE("choices run out of memory") {
  const csr_matrix A = uneven_matrix();
  run_all_out_of_memory(choices(A));
}

#ifdef __GLIBC__
TEST_CASE("everything works without further threads") {
  const csr_matrix A = uneven_matrix(), larger = uneven_matrix(9000);
  for (const auto& operations : {analyses(A), conversions(larger), products(A), choices(A)}) {
    run_all_without_threads(operations);
  }
}
#endif

}  // namespace warploom
