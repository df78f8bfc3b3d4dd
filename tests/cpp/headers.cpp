// What is public: every header under cpp/include, and nothing else.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Names of the headers under cpp/include, each with what it includes, as it writes it.
std::map<std::string, std::vector<std::string>> included() {
  const fs::path folder = WARPLOOM_HEADERS;
  const std::regex include(R"(^\s*#\s*include\s*(\S+).*)");
  std::map<std::string, std::vector<std::string>> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::vector<std::string>& names = found[fs::relative(entry.path(), folder).generic_string()];
    std::ifstream file(entry.path());
    std::smatch match;
    for (std::string line; std::getline(file, line);) {
      if (std::regex_match(line, match, include)) names.push_back(match[1]);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("headers include only public headers and the standard library") {
  const auto headers = included();
  REQUIRE(headers.size() > 20);
  for (const auto& [header, names] : headers) {
    CAPTURE(header);
    for (const std::string& name : names) {
      CAPTURE(name);
      if (name.front() == '"') {
        CHECK(headers.contains(name.substr(1, name.size() - 2)));
      } else {
        CHECK(std::regex_match(name, std::regex("<[a-z_]+>")));
      }
    }
  }
}

TEST_CASE("warploom.hpp includes all other headers") {
  const auto headers = included();
  std::set<std::string> all, listed{"warploom/warploom.hpp"};
  for (const auto& [header, names] : headers) all.insert(header);
  for (const std::string& name : headers.at("warploom/warploom.hpp")) listed.insert(name.substr(1, name.size() - 2));
  CHECK(listed == all);
}
