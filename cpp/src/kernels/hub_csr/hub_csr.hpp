// CSR with hubs, for large irregular matrices (power laws, R-MAT, graphs of the web): what limits their products is the
// 32-byte sector of x that an entry fetches from the L2. The columns with the most entries, the hubs, have their
// entries of x copied into the shared memory of every thread block, where a gather costs a fifth.
//
// A lane holds `entries_per_lane` consecutive entries of one row; a row takes as many neighbouring lanes as it needs.
// Rows follow each other without gaps, and tiles of `hub_tile` places without regard to rows. An index is a column, or,
// if it is negative, `hub_bit` with the number of a hub; the number after the last one marks a place without an entry,
// so that padding reads a zero beside the hubs, never x. Rows without entries are listed apart.
//
// Bytes of an entry: its index and value, and 4 / entries_per_lane for its lane. A gather from the L2 is left for each
// entry that is not in a hub, and one for each hub and thread block (fewer where hubs are neighbours, which share
// sectors). An R-MAT graph of 2^20 columns has 59 % of its nonzeros in 16,384 hubs (64 KB of float32) and 77 % in
// 49,152 (192 KB): that leaves 41 % and 23 % of the sectors, so that the bytes of the matrix are the next limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/csr/row_storage.hpp"
#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

inline constexpr int hub_tile = 128;  // places: 4 for each lane of a warp
inline constexpr std::uint32_t hub_bit = 1u << 31;
inline constexpr std::uint32_t hub_row_head = 1u << 31;  // of `lanes`: the first lane of its row

struct hub_csr {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  std::int64_t num_entries = 0;
  int entries_per_lane = 1;
  std::vector<std::int32_t> hubs;        // columns, ascending
  std::vector<std::uint32_t> lanes;      // row of each lane, with `hub_row_head` in its first; the last row goes on
  std::vector<std::int32_t> indices;     // [lanes * entries_per_lane], a multiple of hub_tile
  std::vector<std::byte> data;           // the same number of `dtype`, 0 where there is no entry
  std::vector<std::int32_t> empty_rows;  // rows without entries

  std::int64_t nnz() const { return num_entries; }
  std::int64_t places() const { return static_cast<std::int64_t>(indices.size()); }
  std::int64_t num_tiles() const { return places() / hub_tile; }
  std::int64_t lanes_per_tile() const { return hub_tile / entries_per_lane; }
  std::int32_t no_entry() const { return static_cast<std::int32_t>(hub_bit | hubs.size()); }
  std::size_t bytes() const;
  std::vector<format_field> fields() const;
};

// Throws error_kind::parameter unless `entries_per_lane` is 1, 2 or 4 and `max_hubs` is not negative.
void check_hubs(std::int64_t max_hubs, int entries_per_lane);

// `rows` must store every row. Hubs are the `max_hubs` columns with the most entries, of several with equally many
// those further left, and only columns with at least two. Throws what check_hubs throws.
hub_csr to_hub_csr(const row_storage& rows, std::int64_t max_hubs, int entries_per_lane);

// In the caller's row order, entries in their stored order.
csr_matrix to_csr(const hub_csr& matrix);

// The hubs whose entries of x, and a zero, take at most `bytes`.
inline std::int64_t hubs_in(std::int64_t bytes, value_type dtype) {
  return bytes / static_cast<std::int64_t>(size_of(dtype)) - 1;
}

// Below, a product with hubs is not worth it.
inline constexpr std::int64_t hub_least_nonzeros = 2'000'000;

// Why a product with hubs is not worth it, or nothing. `share` of the nonzeros is in hubs; it is asked for only where
// it matters. On the host it is estimated from a sample, on a GPU columns are counted.
std::string hub_share_reason(const matrix_summary& matrix, std::int64_t max_hubs, const std::function<double()>& share);

}  // namespace warploom
