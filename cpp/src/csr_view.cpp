#include "warploom/csr_view.hpp"

#include <atomic>
#include <limits>
#include <string>
#include <type_traits>

#include "warploom/error.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t grain = 1 << 18;

// The smallest position in [0, size) for which `bad` holds, or -1. `bad_range(begin, end)` is a cheap vectorisable
// test of a whole range; the position is looked for only in a range that fails it.
template <class BadRange, class Bad>
std::int64_t first_bad(std::int64_t size, BadRange bad_range, Bad bad) {
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> first{none};
  parallel_for(0, size, grain, [&](std::int64_t begin, std::int64_t end) {
    if (begin > first.load(std::memory_order_relaxed) || !bad_range(begin, end)) return;
    for (std::int64_t i = begin; i < end; ++i) {
      if (!bad(i)) continue;
      std::int64_t seen = first.load();
      while (i < seen && !first.compare_exchange_weak(seen, i)) {
      }
      return;
    }
  });
  return first == none ? -1 : first.load();
}

[[noreturn]] void malformed(const char* argument, std::int64_t position, const std::string& message) {
  throw error(error_kind::invalid_matrix, argument, position, message);
}

}  // namespace

void validate_indptr(const std::int64_t* indptr, std::int64_t num_rows) {
  if (indptr[0] != 0) malformed("indptr", 0, "indptr[0] must be 0, got " + std::to_string(indptr[0]));
  const std::int64_t decrease = first_bad(
      num_rows,
      [&](std::int64_t begin, std::int64_t end) {
        bool any = false;
        for (std::int64_t i = begin; i < end; ++i) any |= indptr[i + 1] < indptr[i];
        return any;
      },
      [&](std::int64_t i) { return indptr[i + 1] < indptr[i]; });
  if (decrease >= 0) {
    malformed("indptr", decrease + 1,
              "indptr must not decrease, but indptr[" + std::to_string(decrease + 1) +
                  "] = " + std::to_string(indptr[decrease + 1]) + " < indptr[" + std::to_string(decrease) +
                  "] = " + std::to_string(indptr[decrease]));
  }
}

template <class Index>
void validate_indices(const Index* indices, std::int64_t nnz, std::int64_t num_cols) {
  using unsigned_index = std::make_unsigned_t<Index>;
  const auto limit = static_cast<unsigned_index>(num_cols);  // a negative index wraps past it
  const std::int64_t outside = first_bad(
      nnz,
      [&](std::int64_t begin, std::int64_t end) {
        bool any = false;
        for (std::int64_t j = begin; j < end; ++j) any |= static_cast<unsigned_index>(indices[j]) >= limit;
        return any;
      },
      [&](std::int64_t j) { return static_cast<unsigned_index>(indices[j]) >= limit; });
  if (outside >= 0) {
    malformed("indices", outside,
              "indices[" + std::to_string(outside) + "] = " + std::to_string(indices[outside]) + " is outside [0, " +
                  std::to_string(num_cols) + ")");
  }
}

template void validate_indices(const std::int32_t*, std::int64_t, std::int64_t);
template void validate_indices(const std::int64_t*, std::int64_t, std::int64_t);
template void validate_indices(const std::uint64_t*, std::int64_t, std::int64_t);

void validate(const csr_pattern& matrix) {
  validate_indptr(matrix.indptr, matrix.num_rows);
  validate_indices(matrix.indices, matrix.nnz(), matrix.num_cols);
}

}  // namespace warploom
