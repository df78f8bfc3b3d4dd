// What the conversions to HYB on the host and on the GPU agree on.
#pragma once

#include <cstdint>
#include <string>

namespace warploom {

// ELL is as wide as this many of `num_rows` rows fill; see hyb_width. No more than there are, unless there are none.
std::int64_t rows_that_fill_ell(std::int64_t num_rows);

// Throws what to_hyb throws.
void check_hyb_width(std::int64_t width);

// Why the kernel does not take a matrix with `width` entries of every row in ELL, or "".
std::string hyb_places_reason(std::int64_t width, std::int64_t num_rows, std::int64_t nnz);

}  // namespace warploom
