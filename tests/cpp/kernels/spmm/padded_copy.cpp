// Which products are computed from a padded copy of B, how wide its panels are, and the bytes of its rows.
#include "kernels/spmm/padded_copy.hpp"

#include <array>
#include <cstring>

#include "support.hpp"

namespace warploom {
namespace {

constexpr unaligned_cost float32_cost{3, 0.25};
constexpr std::int64_t mb = std::int64_t{1} << 20;

// Puts the rule of users back.
struct rule_of_tests {
  rule_of_tests(padded_copies when, std::int64_t panel_bytes) { make_padded_copies(when, panel_bytes); }
  ~rule_of_tests() { make_padded_copies(padded_copies::where_they_pay, 0); }
};

unaligned_product product(std::int64_t rows, std::int64_t per_row, std::int64_t k, unaligned_cost cost = float32_cost,
                          std::int64_t value_bytes = 4) {
  return {rows * per_row, rows, k, value_bytes, cost};
}

}  // namespace

TEST_CASE("copy_pays: with many nonzeros for each row of B, and enough to hide the launches") {
  CHECK(copy_pays(product(512'000, 27, 127)));
  CHECK(copy_pays(product(512'000, 27, 5)));
  CHECK(!copy_pays(product(60'000, 12, 31)));   // 8 us saved, 6 + 5 spent
  CHECK(!copy_pays(product(60'000, 4, 1023)));  // traffic
  CHECK(!copy_pays(product(1'000, 100, 33)));   // launches
  CHECK(!copy_pays(product(512'000, 27, 127, {})));
  CHECK(!copy_pays(product(0, 0, 127)));
  // From some number of nonzeros on, and not below.
  bool paid = false;
  for (std::int64_t per_row = 1; per_row < 200; ++per_row) {
    const bool pays = copy_pays(product(100'000, per_row, 65));
    CHECK(pays >= paid);
    paid = pays;
  }
  CHECK(paid);
}

TEST_CASE("copied_columns: panels of whole tiles that stay in the L2, or of a tile, or of what memory there is") {
  CHECK(copied_columns(product(60'000, 4, 1023), 128) == 0);  // does not pay
  CHECK(copied_columns(product(60'000, 50, 127), 128) == 127);
  CHECK(copied_columns(product(60'000, 50, 127), 32) == 127);
  CHECK(copied_columns(product(60'000, 50, 1023), 128) == 128);
  CHECK(copied_columns(product(60'000, 50, 1023), 32) == 128);  // 139 columns would fit
  CHECK(copied_columns(product(60'000, 50, 1023), 64) == 128);
  CHECK(copied_columns(product(512'000, 27, 257), 128) == 128);  // 250 MiB
  CHECK(copied_columns(product(1'000'000, 27, 257), 128) == 64);
  CHECK(copied_columns(product(1'000'000, 27, 33), 128) == 33);
  CHECK(copied_columns(product(4'000'000, 27, 257), 128) == 16);
  CHECK(copied_columns(product(5'000'000, 27, 257), 128) == 0);
  for (const std::int64_t value_bytes : {2, 4}) {
    for (const std::int64_t rows : {1, 3, 1'000, 70'001, 1'000'003, 30'000'000}) {
      for (const std::int64_t k : {5, 17, 33, 129, 1'001, 70'001}) {
        for (const std::int64_t tile : {4, 8, 32, 256}) {
          const rule_of_tests always(padded_copies::always, 0);
          const std::int64_t columns = copied_columns(product(rows, 1, k, {}, value_bytes), tile);
          CAPTURE(rows);
          CAPTURE(k);
          CAPTURE(tile);
          CHECK(columns >= 0);
          CHECK(columns <= k);
          // Rows of a panel begin on 16 bytes of C as far as those of C do, and the copy is bounded.
          if (columns < k) CHECK(columns * value_bytes % 16 == 0);
          CHECK(rows * ((columns * value_bytes + 15) / 16 * 16) <= 256 * mb);
          if (columns == 0) CHECK(rows * std::min<std::int64_t>(64, (k * value_bytes + 15) / 16 * 16) > 256 * mb);
        }
      }
    }
  }
}

TEST_CASE("make_padded_copies: all, none, and small panels") {
  {
    const rule_of_tests always(padded_copies::always, 0);
    CHECK(copied_columns(product(10, 1, 33, {}), 32) == 33);
    CHECK(copied_columns(product(0, 1, 33, {}), 32) == 0);
  }
  {
    const rule_of_tests small(padded_copies::always, 10 * 128);
    CHECK(copied_columns(product(10, 1, 133, {}), 32) == 32);
    CHECK(copied_columns(product(10, 1, 133, {}), 128) == 32);
    CHECK(copied_columns(product(10, 1, 133, {}), 16) == 32);
    CHECK(copied_columns(product(40, 1, 133, {}), 32) == 8);
    CHECK(copied_columns(product(100, 1, 133, {}), 32) == 0);
  }
  {
    const rule_of_tests never(padded_copies::never, 0);
    CHECK(copied_columns(product(512'000, 27, 127), 128) == 0);
  }
  CHECK(copied_columns(product(512'000, 27, 127), 128) == 127);
}

TEST_CASE("realigned: bytes from any place of two words of 16 bytes, and zeros after them") {
  std::array<unsigned char, 32> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(129 + 3 * i);
  sixteen_bytes low, high;
  std::memcpy(&low, bytes.data(), 16);
  std::memcpy(&high, bytes.data() + 16, 16);
  for (int shift = 0; shift < 16; ++shift) {
    for (const int count : {1, 2, 3, 4, 6, 8, 10, 12, 14, 15, 16, 17, 100}) {
      const sixteen_bytes result = realigned(low, high, shift, count);
      std::array<unsigned char, 16> expected{};
      std::memcpy(expected.data(), bytes.data() + shift, std::min(count, 16));
      CHECK(std::memcmp(&result, expected.data(), 16) == 0);
    }
  }
}

}  // namespace warploom
