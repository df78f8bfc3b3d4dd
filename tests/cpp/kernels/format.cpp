// Any format of the registry: what it stores comes back, and options that it does not have are refused.
#include "warploom/formats/format.hpp"

#include <string>

#include "support.hpp"

namespace warploom {

TEST_CASE("every registered format gives back as many nonzeros as it was given") {
  const csr_matrix matrix = test::make_csr(6, {{}, {0, 5}, {1}, {0, 1, 2, 3, 4}, {}});
  for (const format_description& format : formats()) {
    CAPTURE(format.name);
    const auto stored = store(format, matrix.view(), {});
    CHECK(stored->nnz() == matrix.nnz());
    CHECK(stored->places() >= stored->nnz());
    CHECK(stored->to_csr().indptr == matrix.indptr);
    CHECK(!stored->fields().empty());
    CHECK(&find_format(format.name) == &format);
  }
}

TEST_CASE("options are checked") {
  const csr_matrix matrix = test::make_csr(1, {{0}});
  const format_description& sell = find_format("sell");
  const auto error_with = [&](const std::string& name, option_value value) {
    return test::error_of([&] { store(sell, matrix.view(), {{name, value}}); });
  };
  CHECK(error_with("slice_height", 2.5).argument() == "slice_height");
  CHECK(error_with("slice_height", {}).argument() == "slice_height");
  CHECK(error_with("slice_height", std::int64_t{1} << 40).argument() == "slice_height");
  CHECK(error_with("height", 8).argument() == "height");
  CHECK(test::error_of([] { find_format("csc"); }).argument() == "format");
}

}  // namespace warploom
