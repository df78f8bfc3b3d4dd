// How the SpMM kernels on segmented CSR cut rows.
#pragma once

#include <utility>
#include <vector>

#include "kernels/description.hpp"

namespace warploom {

// What selection by measurement tries was chosen from sweeps on an H200: leaving any other value out cost less than
// 1 %.
inline const parameter segment_length{"segment_length", 128,  {16, 32, 64, 128, 256, 512},
                                      {32, 128, 512},   true, "maximum number of nonzeros of a segment of a row"};

inline parameter longest_first(int default_value, std::vector<int> tried) {
  return {"longest_first",  default_value, {0, 1},
          std::move(tried), false,         "1: segments by decreasing length; 0: in the order of the rows"};
}

inline parameter by_column(std::vector<int> tried) {
  return {"by_column",      0,     {0, 1},
          std::move(tried), false, "1: pieces of cut rows first, in the order of their columns"};
}

// Whether other segments do the same work. Segments longer than every row: shorter ones that still cut no row are the
// same, there are no pieces to order, and in the order of the rows they are CSR.
bool redundant_segments(const matrix_summary& matrix, const product_request& request);

// Segments that the rows are cut into, at most.
std::int64_t max_segments(const matrix_summary& matrix, const product_request& request);

}  // namespace warploom
