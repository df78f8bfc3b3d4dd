#include "support.hpp"
#include "warploom/candidate.hpp"

namespace warploom {
namespace {

// What the kernel of a candidate says of a launch over so many rows and nonzeros.
std::string limit_of(const char* name, std::int64_t rows, std::int64_t nnz) {
  const candidate c = parse_candidate(name);
  product_request request;
  request.parameters = c.parameters;
  return c.kernel->launch_limit({rows, rows, nnz}, request);
}

TEST_CASE("threads are numbered in 32 bits: what does not fit is refused and does not wrap around") {
  const std::int64_t most = std::int64_t{1} << 27;
  CHECK(limit_of("spmm/none/csr/row_split", most - 1, 0) == "");
  CHECK(limit_of("spmm/none/csr/row_split", most, 0).find("would need 4294967296 threads") == 0);
  CHECK(limit_of("spmm/none/csr/row_split[threads_per_row=16]", most, 0) == "");
  CHECK(limit_of("spmm/none/segmented-csr/row_split[segment_length=16]", 1, most * 16) != "");
  CHECK(!parse_candidate("spmm/none/csr/c_stationary").kernel->launch_limit);
}

}  // namespace
}  // namespace warploom
