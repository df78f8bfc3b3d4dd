// Data locality (Mehrabi et al. 2021, Table II): which cache lines of a column of B the rows of A need.
//
// Column c of A needs cache line floor(c / L) of a column of B, with L = elements_per_cache_line. A row requests each
// line that holds at least one of its nonzeros once, however many it holds: a request is a pair (row, line). Row i
// belongs to warp i mod N_w. Where the paper leaves something open, this is what is computed:
//   - requests per line are summarised over all ceil(n / L) lines, including those that no row requests;
//   - warps are all N_w warps, including those without rows;
//   - the distance of adjacent rows i and i + 1 is the number of lines that exactly one of them requests; a matrix
//     with fewer than two rows has no distances, and their summary is 0;
//   - a block is N_w consecutive columns, aligned to N_w.
#pragma once

#include "features/summary.hpp"
#include "warploom/csr_view.hpp"
#include "warploom/geometry.hpp"

namespace warploom {

struct cache_line_summaries {
  summary blocks_per_row;
  summary requests_per_line;  // same-cache-lines
  summary distinct_per_warp;
  summary total_per_warp;
  summary adjacent_distance;
};

cache_line_summaries summarise_cache_lines(const csr_pattern& matrix, const geometry& shape);

}  // namespace warploom
