#include "warploom/pattern_image.hpp"

#include <string>

#include "warploom/error.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

void check_cells(std::int64_t cells, std::int64_t size, const char* name) {
  if (cells >= 0 && cells <= size) return;
  throw error(error_kind::parameter, name, -1,
              std::string(name) + " must be between 0 and " + std::to_string(size) + ", got " + std::to_string(cells));
}

}  // namespace

std::vector<std::int64_t> count_in_cells(const csr_pattern& matrix, std::span<const std::int32_t> perm,
                                         std::int64_t height, std::int64_t width) {
  check_cells(height, matrix.num_rows, "height");
  check_cells(width, matrix.num_cols, "width");
  std::vector<std::int64_t> counts(static_cast<std::size_t>(height * width));
  if (counts.empty()) return counts;
  // A thread has rows of cells for itself.
  parallel_for(0, height, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t cell_row = begin; cell_row < end; ++cell_row) {
      std::int64_t* const cells = counts.data() + cell_row * width;
      const std::int64_t last = (cell_row + 1) * matrix.num_rows / height;
      for (std::int64_t p = cell_row * matrix.num_rows / height; p < last; ++p) {
        const std::int64_t row = perm.empty() ? p : perm[p];
        for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
          ++cells[matrix.indices[j] * width / matrix.num_cols];
        }
      }
    }
  });
  return counts;
}

}  // namespace warploom
