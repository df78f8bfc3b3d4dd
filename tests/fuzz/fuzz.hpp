// What fuzz targets share: numbers from bytes, and a way to fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace warploom::fuzz {

// Ends the process if what has to hold does not: the fuzzer keeps the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::abort();
}

// Numbers from the bytes of an input; zeros behind its end.
class numbers {
 public:
  explicit numbers(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  template <class Number = std::uint8_t>
  Number next() {
    Number value{};
    const std::size_t size = bytes_.size() < sizeof value ? bytes_.size() : sizeof value;
    if (size > 0) std::memcpy(&value, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }

  // From 0 to most, most < 256.
  int up_to(int most) { return next() % (most + 1); }

  bool empty() const { return bytes_.empty(); }
  std::string_view rest() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace warploom::fuzz
