// Every entry is in a lane of its row, rows are within a warp or begin one, and the conversion back to CSR loses
// nothing.
#include "kernels/packed_csr/packed_csr.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support.hpp"

namespace warploom {
namespace {

// Rows of the given lengths, their columns 0, 1, 2, ...
csr_matrix rows_of(const std::vector<int>& lengths, value_type dtype) {
  std::vector<std::vector<std::int32_t>> rows;
  for (const int length : lengths) {
    rows.emplace_back(length);
    std::iota(rows.back().begin(), rows.back().end(), 0);
  }
  return test::make_csr(100'000, rows, dtype);
}

std::int32_t row_of(const packed_csr& packed, std::uint32_t lane) {
  const std::uint32_t target = lane & packed_target;
  return lane & packed_cut ? packed.pieces[target].row : static_cast<std::int32_t>(target);
}

void check_packed(const csr_matrix& matrix, int entries_per_lane, int steps) {
  const packed_csr packed = to_packed(store_all_rows(matrix.view(), {}), entries_per_lane, steps);
  REQUIRE(packed.lanes.size() % packed.lanes_per_warp() == 0);
  REQUIRE(packed.indices.size() == packed.lanes.size() * entries_per_lane);
  REQUIRE(packed.data.size() == packed.indices.size() * size_of(matrix.dtype));
  std::vector<std::int64_t> warps_of_row(matrix.num_rows, 0);
  for (std::size_t lane = 0; lane < packed.lanes.size(); ++lane) {
    const std::uint32_t meaning = packed.lanes[lane];
    if (meaning == packed_filler) continue;
    const bool begins_warp = lane % packed.lanes_per_warp() == 0;
    const bool continues = lane > 0 && !begins_warp && packed.lanes[lane - 1] != packed_filler &&
                           row_of(packed, packed.lanes[lane - 1]) == row_of(packed, meaning);
    CHECK(continues == !(meaning & packed_head));
    if (meaning & packed_head) ++warps_of_row[row_of(packed, meaning)];
    if ((meaning & packed_head) && (meaning & packed_cut)) CHECK(begins_warp);
  }
  const std::int64_t entries_per_warp = packed.lanes_per_warp() * entries_per_lane;
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    const std::int64_t length = matrix.indptr[row + 1] - matrix.indptr[row];
    CAPTURE(length);
    CHECK(warps_of_row[row] == (length + entries_per_warp - 1) / entries_per_warp);
    const bool listed = std::count(packed.empty_rows.begin(), packed.empty_rows.end(), row) > 0;
    CHECK(listed == (length == 0));
  }
  const csr_matrix back = to_csr(packed);
  CHECK(back.indptr == matrix.indptr);
  CHECK(back.indices == matrix.indices);
  CHECK(back.data == matrix.data);
}

// The first lane of a row that has entries.
std::int64_t first_lane(const packed_csr& packed, std::int32_t row) {
  const auto found = std::find_if(packed.lanes.begin(), packed.lanes.end(), [&](std::uint32_t lane) {
    return lane != packed_filler && row_of(packed, lane) == row;
  });
  REQUIRE(found != packed.lanes.end());
  return found - packed.lanes.begin();
}

}  // namespace

TEST_CASE("packed-csr keeps every entry, whatever the lengths of the rows") {
  const std::vector<std::vector<int>> cases{
      {},
      {0, 0, 0},
      {1},
      {32, 33, 31, 0, 1, 64},
      {128, 129, 127, 128, 5, 0, 300, 2},
      {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20},
      {1024, 3, 1025, 5000, 7, 0, 9000, 2, 2, 2, 600, 513},
  };
  for (const value_type dtype : {value_type::float16, value_type::float32, value_type::float64}) {
    for (const auto& lengths : cases) {
      const csr_matrix matrix = rows_of(lengths, dtype);
      for (const int entries_per_lane : {1, 2, 4}) {
        for (const int steps : {1, 2, 4}) check_packed(matrix, entries_per_lane, steps);
      }
    }
  }
}

TEST_CASE("the segments of a row say where it is") {
  const csr_matrix matrix = rows_of({3, 9000, 200, 130}, value_type::float32);
  const packed_csr packed = to_packed(store_all_rows(matrix.view(), {}), 4, 1);  // 128 entries a warp, 1,024 a block
  REQUIRE(packed.pieces.size() == 71 + 2 + 2);
  CHECK(packed.pieces[0].row == 1);
  CHECK(packed.pieces[0].num_blocks == 9);
  CHECK(packed.num_partials == 9);
  for (std::size_t i = 0; i < packed.pieces.size(); ++i) {
    const packed_segment& piece = packed.pieces[i];
    if (piece.row == 1) {
      CHECK((piece.place >> 8) == i / packed_warps_per_block);
      CHECK((piece.place >> 4 & 15u) == 0);
      const bool last = i % packed_warps_per_block == 7 || i == 70;
      CHECK((piece.place & 1u) == (last ? 1u : 0u));
    } else {
      CHECK(piece.num_blocks == 1);
    }
  }
}

TEST_CASE("cut rows of the same number of warps lie side by side in blocks of their own") {
  const csr_matrix matrix = rows_of({200, 300, 130, 1024, 200, 256, 129, 1500, 300}, value_type::float32);
  const packed_csr packed = to_packed(store_all_rows(matrix.view(), {}), 4, 1);  // 128 entries a warp
  const auto first_warp = [&](std::int32_t row) { return first_lane(packed, row) / packed.lanes_per_warp(); };
  CHECK(first_warp(7) == 0);   // 12 warps
  CHECK(first_warp(3) == 16);  // 8 warps
  CHECK(first_warp(1) == 24);  // 3 warps, two rows to a block
  CHECK(first_warp(8) == 27);
  CHECK(first_warp(0) == 32);  // 2 warps
  CHECK(first_warp(2) == 34);
  CHECK(first_warp(4) == 36);
  CHECK(first_warp(5) == 38);
  CHECK(first_warp(6) == 40);
  CHECK(packed.num_warps() == 42);
}

TEST_CASE("short rows are laid over the free lanes in their order") {
  // The cut row leaves 24 lanes free: the third of the other rows would end behind them, the fifth would begin there.
  const csr_matrix matrix = rows_of({10, 40, 10, 0, 10, 3}, value_type::float32);
  const packed_csr packed = to_packed(store_all_rows(matrix.view(), {}), 1, 1);
  CHECK(first_lane(packed, 1) == 0);
  CHECK(first_lane(packed, 0) == 40);
  CHECK(first_lane(packed, 2) == 50);
  CHECK(std::count(packed.lanes.begin() + 60, packed.lanes.begin() + 64, packed_filler) == 4);
  CHECK(first_lane(packed, 4) == 64);
  CHECK(first_lane(packed, 5) == 74);
  CHECK(packed.num_warps() == 3);
}

TEST_CASE("every tile of rows begins a warp") {
  const csr_matrix matrix = rows_of(std::vector<int>(packed_rows_per_tile + 7, 5), value_type::float16);
  const packed_csr packed = to_packed(store_all_rows(matrix.view(), {}), 1, 1);  // six rows to a warp
  constexpr std::int64_t warps = (packed_rows_per_tile + 5) / 6;
  CHECK(first_lane(packed, packed_rows_per_tile - 1) == (warps - 1) * 32 + (packed_rows_per_tile - 1) % 6 * 5);
  CHECK(first_lane(packed, packed_rows_per_tile) == warps * 32);
  CHECK(packed.num_warps() == warps + 2);
}

TEST_CASE("packed-csr refuses what it cannot hold") {
  const csr_matrix matrix = rows_of({1, 2}, value_type::float32);
  const row_storage rows = store_all_rows(matrix.view(), {});
  CHECK(test::error_of([&] { to_packed(rows, 0, 1); }).argument() == "entries_per_lane");
  CHECK(test::error_of([&] { to_packed(rows, 1, 0); }).argument() == "steps");
}

}  // namespace warploom
