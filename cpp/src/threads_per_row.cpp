// 2^ceil(log2(ceil(v))) is the smallest power of two p with p >= v, as p is an integer. Compared without a division or
// a square root, p >= nnz / m is exact.
#include "warploom/threads_per_row.hpp"

namespace warploom {
namespace {

constexpr std::int64_t most = 32;

}  // namespace

int threads_per_row_mean(std::int64_t num_rows, std::int64_t nnz) {
  std::int64_t threads = 1;
  while (threads < most && threads * num_rows < nnz) threads *= 2;
  return static_cast<int>(threads);
}

int threads_per_row_square_mean(std::int64_t num_rows, std::int64_t nnz) {
  std::int64_t threads = 1;
  while (threads < most && threads * threads * num_rows < nnz) threads *= 2;
  return static_cast<int>(threads);
}

}  // namespace warploom
