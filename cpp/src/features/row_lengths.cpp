#include "features/row_lengths.hpp"

#include <mutex>
#include <vector>

#include "features/divider.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

summary summarise_row_lengths(const csr_pattern& matrix) {
  summary all;
  std::mutex merging;
  parallel_for(0, matrix.num_rows, 1 << 17, [&](std::int64_t begin, std::int64_t end) {
    summary part;
    for (std::int64_t row = begin; row < end; ++row) part.add(matrix.row_length(row));
    const std::lock_guard<std::mutex> lock(merging);
    all.merge(part);
  });
  return all;
}

double row_length_variance(const csr_pattern& matrix) {
  if (matrix.num_rows == 0) return 0.0;
  const double mean = static_cast<double>(matrix.nnz()) / static_cast<double>(matrix.num_rows);
  // Floating-point sums depend on their order: chunks of a fixed size, added up in order, make the result the same
  // for any number of threads.
  constexpr std::int64_t chunk = 1 << 14;
  std::vector<double> partial(ceil_divide(matrix.num_rows, chunk));
  parallel_for(0, static_cast<std::int64_t>(partial.size()), 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t last = std::min(matrix.num_rows, (c + 1) * chunk);
      double squares = 0.0;
      for (std::int64_t row = c * chunk; row < last; ++row) {
        const double deviation = static_cast<double>(matrix.row_length(row)) - mean;
        squares += deviation * deviation;
      }
      partial[c] = squares;
    }
  });
  double squares = 0.0;
  for (const double part : partial) squares += part;
  return squares / static_cast<double>(matrix.num_rows);
}

double density(const matrix_size& size) {
  if (size.num_rows == 0 || size.num_cols == 0) return 0.0;
  return static_cast<double>(size.nnz) / (static_cast<double>(size.num_rows) * static_cast<double>(size.num_cols));
}

}  // namespace warploom
