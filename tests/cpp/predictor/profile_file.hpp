// Just enough of a reader for the profile that tests/data holds, which make_test_profile.py there writes: the header's
// JSON is searched for an array's name. Profiles of users are read, and checked, by warploom.profiles in Python.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "warploom/predictor.hpp"

namespace warploom::test {

class profile_file {
 public:
  explicit profile_file(const std::string& name) {
    std::ifstream file(std::string(WARPLOOM_TEST_DATA) + "/" + name, std::ios::binary);
    REQUIRE(file.is_open());
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    std::uint64_t length = 0;
    REQUIRE(bytes_.size() > sizeof length);
    std::memcpy(&length, bytes_.data(), sizeof length);
    header_ = std::string(bytes_.data() + sizeof length, length);
    first_byte_ = sizeof length + length;
  }

  // The arrays of a model, without the stored vectors.
  std::map<std::string, array_view> arrays(const std::string& model) const {
    std::map<std::string, array_view> found;
    const std::string start = "\"" + model + ".";
    for (std::size_t at = header_.find(start); at != std::string::npos; at = header_.find(start, at + 1)) {
      const std::size_t name = at + start.size();
      const std::string array = header_.substr(name, header_.find('"', name) - name);
      if (!array.starts_with("check.")) found.emplace(array, view(at));
    }
    return found;
  }

  std::vector<double> doubles(const std::string& name) const {
    const std::size_t at = header_.find("\"" + name + "\":{");
    REQUIRE(at != std::string::npos);
    const array_view array = view(at);
    REQUIRE(array.type == array_type::float64);
    const auto* first = static_cast<const double*>(array.data);
    return {first, first + array.size()};
  }

 private:
  array_view view(std::size_t entry) const {
    const std::string dtype = header_.substr(header_.find("\"dtype\":\"", entry) + 9, 3);
    REQUIRE((dtype == "F64" || dtype == "F32" || dtype == "I32"));
    const array_type type = dtype == "F64"   ? array_type::float64
                            : dtype == "F32" ? array_type::float32
                                             : array_type::int32;
    const std::int64_t offset = numbers("\"data_offsets\":[", entry).front();
    return {type, numbers("\"shape\":[", entry), bytes_.data() + first_byte_ + offset};
  }

  std::vector<std::int64_t> numbers(const std::string& key, std::size_t entry) const {
    std::istringstream text(header_.substr(header_.find(key, entry) + key.size()));
    std::vector<std::int64_t> read;
    std::int64_t number = 0;
    char separator = ',';
    while (separator == ',' && text >> number >> separator) read.push_back(number);
    return read;
  }

  std::vector<char> bytes_;
  std::string header_;
  std::size_t first_byte_ = 0;
};

}  // namespace warploom::test
