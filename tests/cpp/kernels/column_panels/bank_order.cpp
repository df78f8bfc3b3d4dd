// Columns of a panel change places within the 128 bytes of all banks, and 16 bytes stay together.
#include "kernels/column_panels/bank_order.hpp"

#include <set>

#include "support.hpp"

namespace warploom {
namespace {

template <int ValueBytes>
void check_places() {
  constexpr unsigned at_once = 16 / ValueBytes, of_all_banks = 128 / ValueBytes;
  static_assert(panel_columns_multiple % of_all_banks == 0);
  for (unsigned column = 0; column < 65536; ++column) {
    const unsigned place = bank_order<ValueBytes>(column);
    CAPTURE(column);
    REQUIRE(place / of_all_banks == column / of_all_banks);
    REQUIRE(place % at_once == column % at_once);
    REQUIRE(bank_order<ValueBytes>(place) == column);
  }
}

// Of columns that are a multiple of a power of two apart, which would all be in one bank.
template <int ValueBytes>
void check_spread(unsigned apart) {
  std::set<unsigned> banks;
  for (unsigned i = 0; i < 8; ++i) banks.insert(bank_order<ValueBytes>(i * apart) * ValueBytes % 128);
  CHECK(banks.size() == 8);
}

TEST_CASE("every column has a place of its own near by") {
  check_places<2>();
  check_places<4>();
  check_places<8>();
}

TEST_CASE("columns a power of two apart are in different banks") {
  for (unsigned bytes = 128; bytes <= 8192; bytes *= 2) {
    CAPTURE(bytes);
    check_spread<2>(bytes / 2);
    check_spread<4>(bytes / 4);
    check_spread<8>(bytes / 8);
  }
}

}  // namespace
}  // namespace warploom
