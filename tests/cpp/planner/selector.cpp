#include "warploom/selector.hpp"

#include <cmath>
#include <string>

#include "planner/example_matrix.hpp"
#include "planner/linear_model.hpp"
#include "planner/model_inputs.hpp"
#include "support.hpp"

namespace warploom {
namespace {

using test::linear;

const std::string fast = "spmv/none/sell/vector";
const std::string easy = "spmv/none/csr/vector[threads_per_row=2]";
const std::string slow = "spmv/none/csr/vector";

struct made_up {
  std::vector<std::string> inputs{"log_rows", "log_nnz"};
  float loss = 0.25;
  std::string margin = "0.05";
  std::string sizes = "{}";
  std::string unsure = R"("unsure_loss": 0.2)";

  // A reference that is the roofline, and three candidates 0, 0.0625 and 0.125 (compressed) above it.
  profile make() const {
    profile made;
    made.models["spmv-float32-warm"] = linear(
        inputs, {{"reference", 0}, {"loss", loss}, {fast, 0}, {easy, 0.0625}, {slow, 0.125, "log_rows", -0.0001f}});
    made.models["preparation-spmv-float32"] = linear(
        {"one", "rows", "cols", "nnz", "padded"},
        {{slow, 0, "one", 0.0009765625f}, {"spmv/none/another", 5}, {fast, 0, "one", 1}, {easy, 0, "one", 0.0625f}});
    made.metrics = parse_json(R"({"selectors": {"spmv-float32-warm": {"margin": )" + margin + ", " + unsure +
                              R"(, "sizes": )" + sizes + "}}}");
    return made;
  }

  selector build() const { return selector(std::make_shared<const profile>(make())); }
};

const setting spmv{operation::spmv, value_type::float32, layout::row_major, cache_state::warm};

choice chosen(const selector& by, double calls = many_calls, choice::predicate among = {}) {
  return choice(std::make_shared<const ranking>(by.rank(test::example_features(), 1, spmv, calls)), std::move(among));
}

std::vector<std::string> names_of(const choice& of, const std::vector<std::size_t>& candidates) {
  std::vector<std::string> names;
  for (const std::size_t candidate : candidates) names.push_back(of.name(candidate));
  return names;
}

using names = std::vector<std::string>;

}  // namespace

TEST_CASE("a network counts by its share, on the same measurements") {
  const auto networks = [](const std::string& blend) {
    profile made = made_up().make();
    // Inputs and outputs in another order than those of the trees.
    made.models["spmv-float32-warm"] =
        linear({"log_nnz", "log_rows"},
               {{easy, 0}, {slow, 0.5, "log_rows", 0.25f}, {"loss", 0.75}, {fast, 1}, {"reference", 2}});
    made.metrics = parse_json(R"({"blend": {"spmv-float32-warm": {)" + blend + "}}}");
    return std::make_shared<profile>(std::move(made));
  };
  const std::string facts = R"("margin": 0.5, "unsure_doubt": 8)";
  const auto trees = std::make_shared<const profile>(made_up().make());
  const auto rank = [](const selector& by) { return by.rank(test::example_features(), 1, spmv); };
  const ranking alone = rank(selector(trees));
  CHECK(alone.share_of_network == 0);

  const auto given = networks(R"("share": 0.25, )" + facts);
  const ranking both = rank(selector(trees, given));
  REQUIRE(both.scores.size() == 3);
  CHECK(both.share_of_network == 0.25);
  CHECK(both.scores[0] == doctest::Approx(0.25));               // fast
  CHECK(both.scores[1] == doctest::Approx(0.75 * 0.0625));      // easy
  CHECK(both.scores[2] > 0.75 * alone.scores[2] + 0.25 * 0.5);  // slow: and by log_rows
  CHECK(std::log1p(both.expected_loss) == doctest::Approx(0.75 * 0.25 + 0.25 * 0.75));
  CHECK(both.least_us == doctest::Approx(alone.least_us * std::exp(0.5)));
  CHECK(both.order.front() == 1);
  CHECK(both.margin == 0.5);
  CHECK(both.most_doubt == 8);

  const auto other = networks(R"("share": 0.25, )" + facts);
  other->data_hash = "of others";
  CHECK(rank(selector(trees, other)).scores == alone.scores);
  const auto refused = [&](const std::string& blend) {
    return test::error_of([&] { selector(trees, networks(blend)); });
  };
  CHECK(refused(R"("share": 1, )" + facts).kind() == error_kind::profile);
  CHECK(refused(R"("share": 0.5)").kind() == error_kind::profile);
}

TEST_CASE("names of settings") {
  CHECK(spmv.name() == "spmv-float32-warm");
  CHECK(setting{operation::spmm, value_type::float64, layout::column_major, cache_state::cold}.name() ==
        "spmm-float64-column-cold");
  const selector by = made_up().build();
  CHECK(by.names() == names{"spmv-float32-warm"});
  CHECK(by.knows(spmv));
  CHECK(!by.knows({operation::spmm}));
  CHECK(!by.needs_spmm_features(spmv));
  CHECK(!by.needs_column_vectors(spmv));
  CHECK(by.knows_quick(spmv));
  const selector of_lines = made_up{{"log_rows", "log_lines"}}.build();
  CHECK(of_lines.needs_spmm_features(spmv));
  CHECK(!of_lines.needs_column_vectors(spmv));
  CHECK(!of_lines.knows_quick(spmv));
  const selector of_vectors = made_up{{"log_rows", "vector_density_16"}}.build();
  CHECK(!of_vectors.needs_spmm_features(spmv));
  CHECK(of_vectors.needs_column_vectors(spmv));
  CHECK(!of_vectors.knows_quick(spmv));
  CHECK(!of_vectors.needs_locality(spmv));
  const selector of_locality = made_up{{"log_rows", "hidden_overlap"}}.build();
  CHECK(!of_locality.needs_spmm_features(spmv));
  CHECK(!of_locality.needs_column_vectors(spmv));
  CHECK(of_locality.needs_locality(spmv));
  CHECK(!of_locality.knows_quick(spmv));
}

TEST_CASE("predicted times, and the fastest first") {
  const selector by = made_up().build();
  const ranking found = by.rank(test::example_features(), 1, spmv);
  const double bound = roofline_us(96, 200, 576, 1, 4);
  CHECK(found.least_us == bound);
  CHECK(*found.candidates == names{fast, easy, slow});
  CHECK(found.order == std::vector<std::size_t>{0, 1, 2});
  CHECK(found.times_us[0] == bound);
  CHECK(found.times_us[1] == bound * std::exp(expand(0.0625)));
  CHECK(found.totals_us == found.times_us);
  CHECK(found.preparation_ms == std::vector<double>{1, 0.0625, 0.0009765625});
  CHECK(found.expected_loss == std::expm1(0.25));
  CHECK(found.unsure);
  CHECK(!made_up{.loss = 0.125}.build().rank(test::example_features(), 1, spmv).unsure);
}

TEST_CASE("preparation is weighed against calls") {
  const selector by = made_up().build();
  CHECK(chosen(by, 1).name(*chosen(by, 1).first()) == slow);
  CHECK(chosen(by, 200).name(*chosen(by, 200).first()) == easy);
  CHECK(chosen(by, 1e7).name(*chosen(by, 1e7).first()) == fast);
  const ranking found = by.rank(test::example_features(), 1, spmv, 50);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(found.totals_us[i] == found.times_us[i] + 1e3 / 50 * found.preparation_ms[i]);
  }
}

TEST_CASE("candidates are asked about once and only if it matters") {
  const selector by = made_up().build();
  names asked;
  choice some = chosen(by, many_calls, [&](const std::string& name) {
    asked.push_back(name);
    return name != fast;
  });
  CHECK(asked.empty());
  CHECK(some.name(*some.first()) == easy);
  CHECK(asked == names{fast, easy});
  CHECK(names_of(some, some.all()) == names{easy, slow});
  CHECK(names_of(some, some.shortlist()) == names{easy});
  CHECK(asked.size() == 3);
  choice none = chosen(by, many_calls, [](const std::string&) { return false; });
  CHECK(!none.first());
  CHECK(none.shortlist().empty());
  CHECK(!none.first_of_another_kernel());
}

TEST_CASE("the short list is within the margin") {
  const auto listed = [](const char* margin) {
    choice some = chosen(made_up{.margin = margin}.build());
    return names_of(some, some.shortlist());
  };
  CHECK(listed("0") == names{fast});
  CHECK(listed("0.07") == names{fast, easy});
  CHECK(listed("1") == names{fast, easy, slow});
}

TEST_CASE("doubt is the expected loss times how many others are near the first") {
  const std::vector<double> scores = made_up().build().rank(test::example_features(), 1, spmv).scores;
  const double near = std::exp(-0.0625 / nearness), far = std::exp(-scores[2] / nearness);
  names asked;
  const auto made = [&](const std::string& most, const choice::predicate& among = {}) {
    return chosen(made_up{.unsure = R"("unsure_doubt": )" + most}.build(), many_calls, among);
  };
  CHECK(std::abs(made("1").doubt() - 0.25 * (near + far)) < 1e-12);
  CHECK(made("0.09").unsure());
  CHECK(!made("0.1").unsure());
  // What may not be taken is not near.
  choice some = made("0.02", [](const std::string& name) { return name != easy; });
  CHECK(std::abs(some.doubt() - 0.25 * far) < 1e-12);
  CHECK(made("0.02").unsure());
  CHECK(made("0.02", [](const std::string& name) { return name == fast; }).doubt() == 0);
  // Nobody is asked where it cannot matter.
  choice sure = made("1.25", [&](const std::string& name) {
    asked.push_back(name);
    return true;
  });
  CHECK(!sure.unsure());
  CHECK(asked.empty());
  // Sizes outside are unsure whatever the doubt; without the fact, the expected loss decides.
  CHECK(chosen(made_up{.loss = 0, .sizes = R"({"rows": [193, 1000]})", .unsure = R"("unsure_doubt": 1)"}.build())
            .unsure());
  CHECK(chosen(made_up{}.build()).unsure());
  CHECK(!chosen(made_up{.loss = 0.125}.build()).unsure());
}

TEST_CASE("sizes far from those measured are unsure") {
  const auto outside = [](const std::string& sizes) {
    const ranking found = made_up{.loss = 0, .sizes = sizes}.build().rank(test::example_features(), 1, spmv);
    CHECK(found.unsure == !found.outside.empty());
    return found.outside;
  };
  CHECK(outside("{}").empty());
  CHECK(outside(R"({"rows": [192, 1000], "nonzeros": [1, 288], "k": [1, 1], "other": [5, 6]})").empty());
  CHECK(outside(R"({"rows": [193, 1234567.4]})") == "rows = 96 (measured: 193 to 1,234,567)");
  CHECK(outside(R"({"nonzeros": [0.5, 287], "columns": [1000, 100000]})") ==
        "columns = 200 (measured: 1,000 to 100,000), nonzeros = 576 (measured: 0 to 287)");
}

TEST_CASE("inputs that decide between two kernels") {
  const selector by = made_up().build();
  choice some = chosen(by);
  CHECK(some.first_of_another_kernel() == 1);
  const matrix_features features = test::example_features();
  CHECK(by.deciding_inputs(features, 1, spmv, 0, 2) == names{"log_rows"});
  CHECK(by.deciding_inputs(features, 1, spmv, 0, 1).empty());
  CHECK(by.deciding_inputs(features, 1, spmv, 0, 2, 0).empty());
  choice same = chosen(by, many_calls, [](const std::string& name) { return name != fast; });
  CHECK(!same.first_of_another_kernel());  // the settings of one kernel are one
}

TEST_CASE("wrong arguments are refused") {
  const selector by = made_up().build();
  const matrix_features features = test::example_features();
  const error unknown = test::error_of([&] { by.rank(features, 1, {operation::spmm}); });
  CHECK(unknown.argument() == "op");
  CHECK(std::string(unknown.what()) == "the profile has no 'spmm-float32-row-warm', only spmv-float32-warm");
  for (const double calls : {0.0, -1.0, std::nan("")}) {
    CHECK(test::error_of([&] { by.rank(features, 1, spmv, calls); }).argument() == "calls");
  }
  CHECK(test::error_of([&] { by.rank({}, 1, spmv); }).argument() == "features");
  by.rank({features.spmv, {}, {}, {}}, 1, spmv);
  const selector of_pattern = made_up{{"log_rows", "log_lines"}}.build();
  CHECK(test::error_of([&] { of_pattern.rank({features.spmv, {}, {}, {}}, 1, spmv); }).argument() == "features");
  const selector of_vectors = made_up{{"log_rows", "dense_windows_8"}}.build();
  of_vectors.rank({features.spmv, {}, features.column_vectors, {}}, 1, spmv);
  for (const std::vector<double>& wrong : {std::vector<double>{}, std::vector<double>(7, 0.0)}) {
    CHECK(test::error_of([&] { of_vectors.rank({features.spmv, features.spmm, wrong, {}}, 1, spmv); }).argument() ==
          "features");
  }
  const selector of_locality = made_up{{"log_rows", "hidden_overlap"}}.build();
  of_locality.rank({features.spmv, {}, {}, features.locality}, 1, spmv);
  for (const std::vector<double>& wrong : {std::vector<double>{}, std::vector<double>(2, 0.0)}) {
    CHECK(test::error_of([&] { of_locality.rank({features.spmv, {}, {}, wrong}, 1, spmv); }).argument() == "features");
  }
}

TEST_CASE("profiles that lack what belongs to a selector are refused") {
  const auto refused = [](const profile& damaged) {
    const error e = test::error_of([&] { selector by(std::make_shared<const profile>(damaged)); });
    CHECK(e.kind() == error_kind::profile);
    return e.argument();
  };
  profile made = made_up().make();
  made.metrics = parse_json("{}");
  CHECK(refused(made) == "metrics");
  made.metrics = parse_json(R"({"selectors": {"spmv-float32-warm": {"margin": 1}}})");
  CHECK(refused(made) == "metrics");
  made.metrics = parse_json(R"({"selectors": {"spmv-float32-cold": {"margin": 1, "unsure_loss": 1}}})");
  CHECK(refused(made) == "models");
  CHECK(refused(made_up{.sizes = "[]"}.make()) == "metrics");
  CHECK(refused(made_up{.sizes = R"({"rows": [1]})"}.make()) == "metrics");
  made = made_up().make();
  made.models.erase("preparation-spmv-float32");
  CHECK(refused(made) == "models");
  made = made_up().make();
  made.models["preparation-spmv-float32"] = linear({"one"}, {{fast, 0}, {easy, 0}});
  CHECK(refused(made) == "spmv-float32-warm");
  made.models["preparation-spmv-float32"] = linear({"two"}, {{fast, 0}, {easy, 0}, {slow, 0}});
  CHECK(refused(made) == "spmv-float32-warm");
  CHECK(refused(made_up{{"log_rows", "unknown"}}.make()) == "spmv-float32-warm");
  made = made_up().make();
  made.models["spmv-float32-warm"] = linear({"log_rows"}, {{fast, 0}, {easy, 0}, {slow, 0}});
  CHECK(refused(made) == "spmv-float32-warm");
}

}  // namespace warploom
