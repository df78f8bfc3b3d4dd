// Row permutations.
//
//   perm[new] = old          the permuted matrix is A[perm]: its row `new` is row `old` of A
//   inverse[old] = new
//   y_permuted = y[perm]     results go back to the caller's order by y[perm[p]] = y_permuted[p]
//
// Row p of the permuted matrix is processed by warp p mod N_w (geometry::warps), as in Section II-B of Mehrabi et al.
// 2021. Orders for locality do not depend on the geometry. Every tie that an algorithm leaves is broken by the original
// row index, so a permutation depends on the matrix and the geometry alone, never on the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/device.hpp"
#include "warploom/geometry.hpp"

namespace warploom {

class device_csr;

using row_permutation = std::vector<std::int32_t>;

// What an order is good for.
enum class permutation_family {
  none,                  // the caller's order
  load,                  // balances the load of the warps
  cache_lines,           // rows that share cache lines run at the same time
  load_and_cache_lines,  // both
  locality,              // rows that share columns are near each other, at any scale
};

const char* name_of(permutation_family family);

struct permutation_algorithm {
  const char* name;
  const char* summary;  // one sentence for tables
  permutation_family family;
  bool searches;   // looks for nearest rows, which takes far longer than sorting
  bool symmetric;  // good for the columns of a square matrix too (P A P^T)
  row_permutation (*compute)(const csr_pattern&, const geometry&);
  // The same permutation in the memory of the GPU that holds the matrix, with 32-bit row offsets; enqueued on its
  // stream. It returns null where it gives up: the GPU lacks memory, or the host would be faster. Null: there is only
  // the one above.
  std::shared_ptr<const std::int32_t> (*compute_on_gpu)(const device_csr&, const geometry&,
                                                        const device_allocator&) = nullptr;
};

// The registry (cpp/src/permutations/registry.cpp): one row per algorithm.
std::span<const permutation_algorithm> permutation_algorithms();

// The algorithm of that name; throws error_kind::parameter with the known names.
const permutation_algorithm& find_permutation(std::string_view name);

// The permutation of a matrix that a GPU holds, in its memory; the host computes it, on a copy, where the GPU gives up.
// Enqueued on the stream of the matrix. Throws error_kind::parameter if it is not computed on GPUs.
std::shared_ptr<const std::int32_t> permute_on_gpu(const permutation_algorithm& algorithm, const device_csr& matrix,
                                                   const geometry& shape, const device_allocator& allocate);

// Throws error_kind::parameter, naming the first bad position, unless `perm` holds 0..num_rows-1 once each.
void validate_permutation(std::span<const std::int32_t> perm, std::int64_t num_rows);

row_permutation invert(std::span<const std::int32_t> perm);

// The arrays of P A P^T for a square matrix: row `new` of the result is row perm[new] of A, and its column indices are
// the new numbers of those of A, ascending. `source` says where each entry of the result was in A, for its values.
struct symmetric_permutation {
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> source;
};
symmetric_permutation permute_symmetrically(const csr_pattern& matrix, std::span<const std::int32_t> perm);

// "cta-aware" by comparing every two masks. Slow: for benchmarks and tests.
row_permutation cta_aware_by_brute_force(const csr_pattern& matrix, const geometry& shape);

}  // namespace warploom
