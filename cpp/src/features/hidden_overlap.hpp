// What rows share that use a column one after the other, wherever they are: what host and GPU share.
//
// Nonzeros at places spread evenly are sampled; of several in one column the first is taken. The next nonzero in the
// column gives a pair of rows. Of each, the nonzeros around the one in that column are compared, so that long rows do
// not cost more: distinct columns in common, and the most that could be, without the one that is known.
//
// All counts are integers: no order of threads changes the result.
#pragma once

#include <cstdint>
#include <functional>

#include "features/row_segment.hpp"

namespace warploom {

class device_csr;

namespace overlap {

inline constexpr int num_samples = 4096;
inline constexpr int reach = 128;  // nonzeros that are compared: so many before the common column, and after it

// The place of sample i among the nonzeros.
WARPLOOM_HOST_DEVICE std::int64_t place_of_sample(std::int64_t i, std::int64_t nnz) { return i * nnz / num_samples; }

// The nonzeros [begin, end) of a row that are compared.
struct window {
  std::int64_t begin;
  std::int64_t end;

  WARPLOOM_HOST_DEVICE window(std::int64_t row_begin, std::int64_t row_end, std::int64_t place)
      : begin(place - row_begin > reach ? place - reach : row_begin),
        end(row_end - place > reach ? place + reach : row_end) {}
};

struct counts {
  std::int64_t common = 0;
  std::int64_t possible = 0;
};

inline double value_of(const counts& found) {
  return found.possible == 0 ? 0 : static_cast<double>(found.common) / static_cast<double>(found.possible);
}

}  // namespace overlap

// Defined in hidden_overlap.cu, like the next one. Enqueued on a stream of its own, so that the GPU works on other
// features meanwhile, once the matrix is complete, as an upload or a view of somebody's arrays is; what is returned
// waits and tells the value, once.
std::function<double()> start_cuda_hidden_overlap(const device_csr& matrix, std::int64_t fewest_nonzeros);

// Finished on return.
double compute_cuda_hidden_overlap(const device_csr& matrix, std::int64_t fewest_nonzeros);

}  // namespace warploom
