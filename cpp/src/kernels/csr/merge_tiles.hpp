// Merge-path SpMV (Merrill and Garland 2016): nonzeros and ends of rows, merged in storage order, are cut into tiles of
// equal size, one for each thread block, so that neither long nor empty rows cause imbalance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace warploom {

// Takes the nonzeros begin .. end and ends the rows row .. end_row. Four int32, so that a GPU thread reads one with one
// load.
struct merge_tile {
  std::int32_t row;
  std::int32_t end_row;
  std::int32_t begin;
  std::int32_t end;
};

// The rows that a tile has in common with its neighbours: a cut row has nonzeros in the tiles first .. last, and ends
// in the last.
struct merge_cuts {
  std::int32_t head_first;  // first tile of the cut row that the tile starts in, or -1
  std::int32_t tail_last;   // last tile of the cut row that the tile stops in, or -1
};

struct merge_tiles {
  std::vector<merge_tile> tiles;
  std::vector<merge_cuts> cuts;  // one for each tile, or empty if no row is cut
};

// Tiles of at most `size` items. To cut few rows, which then need partial sums, a tile stops before a row of up to a
// quarter of its size rather than in it. Needs fewer than 2^31 nonzeros.
merge_tiles make_merge_tiles(std::span<const std::int64_t> indptr, int size);

// The same, made on the current device, where the matrix is. Only builds with CUDA have it.
class device_csr;
merge_tiles merge_tiles_on_gpu(const device_csr& matrix, int size);

}  // namespace warploom
