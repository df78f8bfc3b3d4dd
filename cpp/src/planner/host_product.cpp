#include "planner/host_product.hpp"

#include <algorithm>

#include "warploom/candidate.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

std::unique_ptr<host_product> host_product::prepare(const problem& given) {
  if (!given.on_gpu() || !given.in_host_memory() || given.updatable || size_of(given.dtype()) < 4) return nullptr;
  matrix_summary sizes;
  sizes.num_rows = given.num_rows();
  sizes.num_cols = given.num_cols();
  sizes.nnz = given.nnz();
  sizes.dtype = given.dtype();
  const bool transposes = given.op == operation::spmm && given.order == layout::column_major;
  if (!is_quicker(sizes, given.k, transposes)) return nullptr;
  const product_kernel& plain = cpu_baseline_kernel(given.op, given.order);
  product_request request;
  request.k = given.k;
  request.order = given.order;
  request.parameters = complete_parameters(plain, {});
  auto prepared = warploom::prepare(plain, given.matrix(), request);
  return std::unique_ptr<host_product>(new host_product(sizes, transposes, std::move(prepared)));
}

// Nanoseconds, as measured beside an H200, whose host has 16 cores (tests/gpu/measure_host_operands.py).
bool host_product::is_quicker(const matrix_summary& sizes, std::int64_t columns, bool transposes) {
  constexpr std::int64_t most_nonzeros = 1 << 18;       // copying more takes longer than planning
  constexpr std::size_t cached = std::size_t{2} << 20;  // by each core, which waits for operands beyond that
  if (sizes.nnz > most_nonzeros) return false;
  const std::int64_t work = sizes.nnz + sizes.num_rows;
  const std::int64_t worth = transposes ? std::max(sizes.num_rows, sizes.num_cols) * columns >> 16
                                        : std::min(work * columns >> 16, work >> 12);
  const auto threads = std::clamp<std::int64_t>(worth, 1, num_threads());
  const std::size_t bytes = (sizes.num_rows + sizes.num_cols) * columns * size_of(sizes.dtype);
  if (bytes > cached * threads) return false;
  if (transposes && threads > 1) return false;  // between the caches of different cores
  const double per_nonzero = columns == 1 ? 0.5 : std::max(1.2, 0.03 * columns * size_of(sizes.dtype));
  const double on_a_core = 5.0 * sizes.num_rows + per_nonzero * sizes.nnz + (transposes ? 0.03 * bytes : 0.0);
  // Waking threads takes a while, and each of them adds about half of what it could.
  const double on_cpu = threads == 1 ? on_a_core : 10'000 + 2 * on_a_core / (threads + 1);
  // One graph of copies and product; more than a core caches takes longer, until it goes through page-locked memory by
  // several threads.
  constexpr std::size_t in_cache = std::size_t{1} << 20, one_by_one = std::size_t{2} << 20;
  const auto between = [&](std::size_t from, std::size_t to) { return std::clamp(bytes, from, to) - from; };
  const double there_and_back = 13'000 + between(0, in_cache) / 13.0 + between(in_cache, one_by_one) / 8.0 +
                                (std::max(bytes, one_by_one) - one_by_one) / 20.0;
  return on_cpu < there_and_back;
}

}  // namespace warploom
