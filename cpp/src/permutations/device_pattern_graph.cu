#include <algorithm>
#include <limits>
#include <utility>

#include "device/algorithms.hpp"
#include "device/runtime.hpp"
#include "kernels/device/nonzeros.cuh"
#include "kernels/device/warp.cuh"
#include "permutations/device_edges.cuh"
#include "permutations/device_pattern_graph.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;

struct pattern_check {
  unsigned long long asymmetry;  // sum of hashes
  unsigned disordered;           // a row whose columns do not ascend strictly
};

// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
__device__ unsigned long long hash(unsigned long long bits) {
  bits += 0x9e3779b97f4a7c15ull;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9ull;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebull;
  return bits ^ bits >> 31;
}

__global__ void row_lengths_kernel(const std::int32_t* __restrict__ indptr, unsigned size,
                                   std::int32_t* __restrict__ lengths) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i < size) lengths[i] = indptr[i + 1] - indptr[i];
}

__global__ void __launch_bounds__(threads_per_block)
    check_pattern_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ indices,
                         int num_rows, unsigned nnz, unsigned nnz_of_warp, std::int32_t* __restrict__ degrees,
                         pattern_check* __restrict__ found) {
  const unsigned warp = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  const unsigned first = min(warp * nnz_of_warp, nnz);
  unsigned long long sum = 0;
  bool disordered = false;
  cuda::for_each_nonzero(indptr, num_rows, first, min(first + nnz_of_warp, nnz), [&](unsigned j, int row, bool there) {
    if (!there) return;
    const std::int32_t column = indices[j];
    sum += hash(edges::pair_of(row, column, 32)) - hash(edges::pair_of(column, row, 32));
    disordered |= j > static_cast<unsigned>(indptr[row]) && indices[j - 1] >= column;
    if (column == row) atomicSub(degrees + row, 1);  // only once, if the columns ascend
  });
  sum = cuda::group_sum<32>(sum);
  const bool any = cuda::any_lane(disordered);
  if (cuda::lane_id() != 0) return;
  if (sum != 0) atomicAdd(&found->asymmetry, sum);
  if (any) found->disordered = 1;
}

// Both directions of every edge, and pairs above all others in place of the diagonal.
__global__ void __launch_bounds__(threads_per_block)
    edges_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ indices, int num_rows,
                 unsigned nnz, unsigned nnz_of_warp, unsigned first_column, int bits,
                 std::uint64_t* __restrict__ found) {
  const unsigned warp = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  const unsigned first = min(warp * nnz_of_warp, nnz);
  cuda::for_each_nonzero(indptr, num_rows, first, min(first + nnz_of_warp, nnz), [&](unsigned j, int row, bool there) {
    if (!there) return;
    const unsigned other = first_column + indices[j], self = row;
    found[j] = self == other ? edges::no_edge(bits) : edges::pair_of(self, other, bits);
    found[nnz + j] = self == other ? edges::no_edge(bits) : edges::pair_of(other, self, bits);
  });
}

}  // namespace

class device_graph_builder {
 public:
  device_graph_builder(const device_csr& matrix, std::int32_t num_nodes)
      : matrix_(matrix),
        stream_(matrix.stream()),
        share_(cuda::nnz_per_warp(matrix.nnz())),
        blocks_(cuda::blocks_for((matrix.nnz() + share_ - 1) / share_ * 32)),
        graph_(num_nodes, stream_) {}

  std::optional<device_pattern_graph> build() && {
    if (matrix_.num_rows() == matrix_.num_cols() && is_the_graph()) {
      graph_.indptr = matrix_.indptr32();
      graph_.neighbours = matrix_.indices();
      return std::move(graph_);
    }
    if (2 * matrix_.nnz() > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
    sort_edges();
    return std::move(graph_);
  }

 private:
  bool is_the_graph() {
    compute_degrees(matrix_.indptr32());
    if (matrix_.nnz() == 0) return true;
    const cuda::pooled_memory found(sizeof(pattern_check), stream_);
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, sizeof(pattern_check), stream_));
    check_pattern_kernel<<<blocks_, threads_per_block, 0, stream_>>>(
        matrix_.indptr32(), matrix_.indices(), static_cast<int>(matrix_.num_rows()),
        static_cast<unsigned>(matrix_.nnz()), share_, graph_.degrees.as<std::int32_t>(), found.as<pattern_check>());
    cuda::check_launch("check_pattern_kernel");
    const auto check = cuda::read_back(found.as<const pattern_check>(), stream_);
    return check.asymmetry == 0 && check.disordered == 0;
  }

  void sort_edges() {
    const std::int64_t nnz = matrix_.nnz(), nodes = graph_.num_nodes;
    const bool bipartite = matrix_.num_rows() != matrix_.num_cols();
    // One node more than there are, so that no edge is the pair that stands for none.
    const int bits = cuda::bits_for(static_cast<std::uint64_t>(nodes));
    const cuda::pooled_memory found(std::max<std::size_t>(2 * nnz * sizeof(std::uint64_t), 1), stream_);
    const cuda::pooled_memory count(sizeof(std::int32_t), stream_);
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(count.data(), 0, sizeof(std::int32_t), stream_));
    if (nnz > 0) {
      edges_kernel<<<blocks_, threads_per_block, 0, stream_>>>(
          matrix_.indptr32(), matrix_.indices(), static_cast<int>(matrix_.num_rows()), static_cast<unsigned>(nnz),
          share_, bipartite ? static_cast<unsigned>(matrix_.num_rows()) : 0u, bits, found.as<std::uint64_t>());
      cuda::check_launch("edges_kernel");
      const cuda::pooled_memory sorted(2 * nnz * sizeof(std::uint64_t), stream_);
      cuda::sort_keys(found.as<const std::uint64_t>(), sorted.as<std::uint64_t>(), 2 * nnz, 2 * bits, stream_);
      cuda::unique(sorted.as<const std::uint64_t>(), found.as<std::uint64_t>(), count.as<std::int32_t>(), 2 * nnz,
                   stream_);
    }
    graph_.own_indptr_.emplace((nodes + 1) * sizeof(std::int32_t), stream_);
    graph_.own_neighbours_.emplace(std::max<std::size_t>(2 * nnz * sizeof(std::int32_t), 1), stream_);
    graph_.indptr = graph_.own_indptr_->as<const std::int32_t>();
    graph_.neighbours = graph_.own_neighbours_->as<const std::int32_t>();
    edges::offsets_kernel<<<cuda::blocks_for(nodes + 1), threads_per_block, 0, stream_>>>(
        found.as<const std::uint64_t>(), count.as<const std::int32_t>(), bits, static_cast<unsigned>(nodes),
        graph_.own_indptr_->as<std::int32_t>());
    cuda::check_launch("offsets_kernel");
    edges::neighbours_kernel<<<std::clamp(cuda::blocks_for(2 * nnz), 1u, 4096u), threads_per_block, 0, stream_>>>(
        found.as<const std::uint64_t>(), count.as<const std::int32_t>(), bits,
        graph_.own_neighbours_->as<std::int32_t>());
    cuda::check_launch("neighbours_kernel");
    compute_degrees(graph_.indptr);
  }

  void compute_degrees(const std::int32_t* indptr) {
    row_lengths_kernel<<<cuda::blocks_for(graph_.num_nodes), threads_per_block, 0, stream_>>>(
        indptr, static_cast<unsigned>(graph_.num_nodes), graph_.degrees.as<std::int32_t>());
    cuda::check_launch("row_lengths_kernel");
  }

  const device_csr& matrix_;
  cudaStream_t stream_;
  unsigned share_, blocks_;
  device_pattern_graph graph_;
};

std::optional<device_pattern_graph> device_pattern_graph::of(const device_csr& matrix) {
  const bool bipartite = matrix.num_rows() != matrix.num_cols();
  const std::int64_t nodes = matrix.num_rows() + (bipartite ? matrix.num_cols() : 0);
  if (nodes > std::numeric_limits<std::int32_t>::max() - 1) return std::nullopt;
  if (bipartite && matrix.num_cols() > 4 * (matrix.num_rows() + matrix.nnz())) return std::nullopt;
  return device_graph_builder(matrix, static_cast<std::int32_t>(nodes)).build();
}

}  // namespace warploom
