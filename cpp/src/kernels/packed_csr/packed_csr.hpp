// CSR packed into warps: a warp finds its entries without a load, and the row of each lane is stored beside them.
//
// A lane holds `entries_per_lane` consecutive entries of one row; a row takes as many neighbouring lanes as it needs. A
// warp has `steps` times 32 lanes, one step after another, and a block has eight warps. Rows without entries are listed
// apart. Where all others go can be found in parallel:
//
// - Rows longer than a warp come first, those of most warps at the front: each is cut into segments that begin
//   neighbouring warps. Rows of more than eight warps begin a block each. Rows of eight warps or fewer lie side by side
//   in blocks for rows of the same number of warps, as many as fit into one.
// - Cut rows leave lanes free: behind the end of each, and in warps that complete their blocks. The other rows, in
// their
//   order, are laid over the free lanes as if these were consecutive; a row that comes to lie within one warp is there.
// - The rest of them follow in their order, next to each other as long as a warp has lanes left. They are packed in
// tiles
//   of 4,096 rows of the matrix, each of which begins a warp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/csr/row_storage.hpp"
#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

inline constexpr int packed_warps_per_block = 8;
inline constexpr int packed_rows_per_tile = 4096;

// One segment of a cut row. The segments of a row follow each other. A row of several blocks has a partial sum for each
// of them, those from `first_partial` on.
struct alignas(16) packed_segment {
  std::int32_t row;
  std::int32_t first_partial;
  std::int32_t num_blocks;
  // Number of the block among those of the row * 256 + first warp of the row in the block * 16 + whether this segment
  // is the last of the row in the block.
  std::uint32_t place;
};

// The sum that a lane adds to. The lowest 30 bits are a row, or the index of a segment if `packed_cut` is set.
inline constexpr std::uint32_t packed_head = 1u << 31;  // the first lane of a row or segment
inline constexpr std::uint32_t packed_cut = 1u << 30;
inline constexpr std::uint32_t packed_target = packed_cut - 1;
inline constexpr std::uint32_t packed_filler = packed_head | packed_target;  // a lane without entries

struct packed_csr {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  std::int64_t num_entries = 0;
  int entries_per_lane = 1;
  int steps = 1;
  std::vector<std::uint32_t> lanes;      // [number of warps * steps * 32]
  std::vector<std::int32_t> indices;     // [lanes * entries_per_lane], -1 where there is no entry
  std::vector<std::byte> data;           // the same number of `dtype`, 0 where there is no entry
  std::vector<packed_segment> pieces;    // of cut rows
  std::int32_t num_partials = 0;         // partial sums of blocks, for the rows that take several blocks
  std::vector<std::int32_t> empty_rows;  // rows without entries

  std::int64_t nnz() const { return num_entries; }
  std::int64_t lanes_per_warp() const { return std::int64_t{32} * steps; }
  std::int64_t num_warps() const { return static_cast<std::int64_t>(lanes.size()) / lanes_per_warp(); }
  std::int64_t places() const { return static_cast<std::int64_t>(indices.size()); }
  std::size_t bytes() const;
  std::vector<format_field> fields() const;
};

// Throws error_kind::parameter unless `entries_per_lane` and `steps` are 1, 2 or 4, and index_overflow from 2^30 - 1
// rows on.
void check_packed(std::int64_t num_rows, int entries_per_lane, int steps);

// `rows` must store every row. Throws what check_packed throws.
packed_csr to_packed(const row_storage& rows, int entries_per_lane, int steps);

// In the caller's row order, entries in their stored order.
csr_matrix to_csr(const packed_csr& matrix);

}  // namespace warploom
