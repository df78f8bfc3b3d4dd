// Names of candidates: read or refused, and what is read has a name that means the same.
#include <string>

#include "fuzz.hpp"
#include "warploom/candidate.hpp"
#include "warploom/error.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace warploom;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const candidate read = parse_candidate(text);
    fuzz::require(parse_candidate(read.name()) == read, "its name means something else");
    fuzz::require(matches(read.name(), name_patterns{{read.name_without_parameters() + "*"}}),
                  "its name does not match");
  } catch (const error& refused) {
    fuzz::require(refused.kind() == error_kind::parameter, "the error is another one");
  }
  matches("spmv/none/csr/vector[threads_per_row=8]", name_patterns{{text}});
  return 0;
}
