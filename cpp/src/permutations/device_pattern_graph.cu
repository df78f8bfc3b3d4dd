#include <algorithm>
#include <limits>
#include <utility>

#include "device/algorithms.hpp"
#include "device/launch.cuh"
#include "device/runtime.hpp"
#include "kernels/device/nonzeros.cuh"
#include "kernels/device/warp.cuh"
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

__device__ unsigned long long hash_of(unsigned row, unsigned column) {
  return hash(static_cast<unsigned long long>(row) << 32 | column);
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
    sum += hash_of(row, column) - hash_of(column, row);
    disordered |= j > static_cast<unsigned>(indptr[row]) && indices[j - 1] >= column;
    if (degrees != nullptr && column == row) atomicSub(degrees + row, 1);  // only once, if the columns ascend
  });
  sum = cuda::group_sum<32>(sum);
  const bool any = cuda::any_lane(disordered);
  if (cuda::lane_id() != 0) return;
  if (sum != 0) atomicAdd(&found->asymmetry, sum);
  if (any) found->disordered = 1;
}

// The nonzeros of a matrix or of its transpose as pairs of nodes, sorted by both, and which of them are edges of the
// graph: one of equal pairs, and none of a node with itself.
struct pairs {
  const std::int32_t* indptr;      // [size + 1]
  const std::int32_t* rows;        // [nnz]
  const std::int32_t* neighbours;  // [nnz]
  int size;
  // Nodes are rows and neighbours with these added.
  int first_row, first_neighbour;
  std::uint32_t* edges;  // bit j % 32 of edges[j / 32] is set if pair j is one; nnz / 32 + 1 words
  std::int32_t* counts;  // edges before pair 32 i; as many

  // Where the pairs of a node start, of the whole graph.
  __device__ unsigned start_of(int node) const { return indptr[min(max(node - first_row, 0), size)]; }

  // The first pair of a node whose neighbour is not below this one; the start of the next node if there is none.
  __device__ unsigned position_of(int node, int neighbour) const {
    unsigned low = start_of(node), high = start_of(node + 1);
    while (low < high) {
      const unsigned middle = low + (high - low) / 2;
      if (neighbours[middle] + first_neighbour < neighbour) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  __device__ bool has(int node, int neighbour) const {
    const unsigned at = position_of(node, neighbour);
    return at < start_of(node + 1) && neighbours[at] + first_neighbour == neighbour;
  }

  __device__ bool is_edge(unsigned j) const { return (edges[j / 32] >> j % 32 & 1u) != 0; }

  __device__ unsigned edges_before(unsigned j) const {
    return counts[j / 32] + __popc(edges[j / 32] & ((1u << j % 32) - 1));
  }
};

__global__ void __launch_bounds__(threads_per_block)
    row_starts_kernel(const std::int32_t* __restrict__ rows, unsigned nnz, int size,
                      std::int32_t* __restrict__ indptr) {
  const int row = static_cast<int>(blockIdx.x * threads_per_block + threadIdx.x);
  if (row > size) return;
  unsigned low = 0, high = nnz;
  while (low < high) {
    const unsigned middle = low + (high - low) / 2;
    if (rows[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  indptr[row] = static_cast<std::int32_t>(low);
}

// With `of_other_first`, pairs that the other list has too are edges of that one.
template <bool of_other_first>
__global__ void __launch_bounds__(threads_per_block) mark_edges_kernel(pairs of, pairs other, unsigned nnz) {
  const unsigned j = blockIdx.x * threads_per_block + threadIdx.x;
  bool is_edge = false;
  if (j < nnz) {
    const int node = of.rows[j] + of.first_row, neighbour = of.neighbours[j] + of.first_neighbour;
    const bool again = j > 0 && of.rows[j - 1] == of.rows[j] && of.neighbours[j - 1] == of.neighbours[j];
    is_edge = node != neighbour && !again;
    if (of_other_first) is_edge = is_edge && !other.has(node, neighbour);
  }
  const unsigned edges = cuda::ballot(is_edge);
  if (cuda::lane_id() == 0 && j <= nnz) of.edges[j / 32] = edges;
}

// Before an edge come those of its own list and those of the other one that do.
__global__ void __launch_bounds__(threads_per_block)
    merge_edges_kernel(pairs of, pairs other, unsigned nnz, std::int32_t* __restrict__ neighbours) {
  const unsigned j = blockIdx.x * threads_per_block + threadIdx.x;
  if (j >= nnz || !of.is_edge(j)) return;
  const int neighbour = of.neighbours[j] + of.first_neighbour;
  const unsigned there = other.position_of(of.rows[j] + of.first_row, neighbour);
  neighbours[of.edges_before(j) + other.edges_before(there)] = neighbour;
}

__global__ void __launch_bounds__(threads_per_block)
    edge_starts_kernel(pairs first, pairs second, int num_nodes, std::int32_t* __restrict__ indptr) {
  const int node = static_cast<int>(blockIdx.x * threads_per_block + threadIdx.x);
  if (node > num_nodes) return;
  indptr[node] =
      static_cast<std::int32_t>(first.edges_before(first.start_of(node)) + second.edges_before(second.start_of(node)));
}

}  // namespace

class device_graph_builder {
 public:
  device_graph_builder(const device_csr& matrix, std::int32_t num_nodes)
      : matrix_(matrix),
        stream_(matrix.stream()),
        nnz_(static_cast<unsigned>(matrix.nnz())),
        graph_(num_nodes, stream_) {}

  std::optional<device_pattern_graph> build() && {
    const pattern_check check = checked();
    if (matrix_.num_rows() == matrix_.num_cols() && check.asymmetry == 0 && check.disordered == 0) {
      graph_.indptr = matrix_.indptr32();
      graph_.neighbours = matrix_.indices();
      return std::move(graph_);
    }
    if (2 * matrix_.nnz() > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
    merge_with_transpose(check.disordered != 0);
    compute_degrees(graph_.indptr);
    return std::move(graph_);
  }

 private:
  using memory = cuda::pooled_memory;

  // Pairs sorted by their rows, and then by their neighbours.
  struct sorted_pairs {
    memory rows, neighbours, indptr;
  };

  // What is known of the edges of one list of pairs.
  struct edge_marks {
    memory edges, counts;
  };

  template <class T>
  memory array(std::int64_t size) const {
    return memory(std::max<std::size_t>(size * sizeof(T), 1), stream_);
  }

  pattern_check checked() {
    const bool square = matrix_.num_rows() == matrix_.num_cols();
    if (square) compute_degrees(matrix_.indptr32());
    if (nnz_ == 0) return {0, 0};
    const memory found = array<pattern_check>(1);
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, sizeof(pattern_check), stream_));
    const unsigned share = cuda::nnz_per_warp(nnz_);
    cuda::launch("check_pattern_kernel", check_pattern_kernel, (std::int64_t{nnz_} + share - 1) / share * 32, stream_,
                 matrix_.indptr32(), matrix_.indices(), static_cast<int>(matrix_.num_rows()), nnz_, share,
                 square ? graph_.degrees.as<std::int32_t>() : nullptr, found.as<pattern_check>());
    return cuda::read_back(found.as<const pattern_check>(), stream_);
  }

  // Sorts pairs by their neighbours, which become rows; stable, so that pairs in the order of their rows ascend.
  sorted_pairs transposed(const std::int32_t* rows, const std::int32_t* neighbours, std::int64_t size) const {
    sorted_pairs found{array<std::int32_t>(nnz_), array<std::int32_t>(nnz_), array<std::int32_t>(size + 1)};
    const auto largest = static_cast<std::uint64_t>(std::max<std::int64_t>(size - 1, 0));
    cuda::sort_pairs(reinterpret_cast<const std::uint32_t*>(neighbours), found.rows.as<std::uint32_t>(), rows,
                     found.neighbours.as<std::int32_t>(), nnz_, cuda::bits_for(largest), stream_);
    cuda::launch("row_starts_kernel", row_starts_kernel, size + 1, stream_, found.rows.as<const std::int32_t>(), nnz_,
                 static_cast<int>(size), found.indptr.as<std::int32_t>());
    return found;
  }

  edge_marks marks() const {
    const std::int64_t words = std::int64_t{nnz_} / 32 + 1;
    return {array<std::uint32_t>(words), array<std::int32_t>(words)};
  }

  static pairs pairs_of(const sorted_pairs& sorted, std::int64_t size, const edge_marks& marks) {
    return {sorted.indptr.as<const std::int32_t>(),
            sorted.rows.as<const std::int32_t>(),
            sorted.neighbours.as<const std::int32_t>(),
            static_cast<int>(size),
            0,
            0,
            marks.edges.as<std::uint32_t>(),
            marks.counts.as<std::int32_t>()};
  }

  // Columns of a matrix that is not square are the nodes after its rows.
  void merge_with_transpose(bool disordered) {
    const std::int64_t m = matrix_.num_rows(), n = matrix_.num_cols();
    const cuda::device_array<std::int32_t> rows = cuda::row_indices_of(matrix_, cuda::pooled_allocator(stream_));
    const edge_marks of_rows = marks(), of_columns = marks();
    const sorted_pairs by_column = transposed(rows.data(), matrix_.indices(), n);
    std::optional<sorted_pairs> by_row;
    pairs first{matrix_.indptr32(),
                rows.data(),
                matrix_.indices(),
                static_cast<int>(m),
                0,
                0,
                of_rows.edges.as<std::uint32_t>(),
                of_rows.counts.as<std::int32_t>()};
    if (disordered) {
      by_row.emplace(
          transposed(by_column.rows.as<const std::int32_t>(), by_column.neighbours.as<const std::int32_t>(), m));
      first = pairs_of(*by_row, m, of_rows);
    }
    pairs second = pairs_of(by_column, n, of_columns);
    if (m != n) first.first_neighbour = second.first_row = static_cast<int>(m);
    mark(mark_edges_kernel<false>, first, second);
    mark(mark_edges_kernel<true>, second, first);
    const std::int64_t nodes = graph_.num_nodes;
    graph_.own_indptr_.emplace(array<std::int32_t>(nodes + 1));
    graph_.own_neighbours_.emplace(array<std::int32_t>(2 * std::int64_t{nnz_}));
    auto* const indptr = graph_.own_indptr_->as<std::int32_t>();
    auto* const neighbours = graph_.own_neighbours_->as<std::int32_t>();
    cuda::launch("edge_starts_kernel", edge_starts_kernel, nodes + 1, stream_, first, second, static_cast<int>(nodes),
                 indptr);
    cuda::launch("merge_edges_kernel", merge_edges_kernel, nnz_, stream_, first, second, nnz_, neighbours);
    cuda::launch("merge_edges_kernel", merge_edges_kernel, nnz_, stream_, second, first, nnz_, neighbours);
    graph_.indptr = indptr;
    graph_.neighbours = neighbours;
  }

  void mark(void (*kernel)(pairs, pairs, unsigned), const pairs& of, const pairs& other) const {
    cuda::launch("mark_edges_kernel", kernel, std::int64_t{nnz_} + 1, stream_, of, other, nnz_);
    cuda::exclusive_scan_of_bits(of.edges, of.counts, std::int64_t{nnz_} / 32 + 1, stream_);
  }

  void compute_degrees(const std::int32_t* indptr) {
    cuda::launch("row_lengths_kernel", row_lengths_kernel, graph_.num_nodes, stream_, indptr,
                 static_cast<unsigned>(graph_.num_nodes), graph_.degrees.as<std::int32_t>());
  }

  const device_csr& matrix_;
  cudaStream_t stream_;
  unsigned nnz_;
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
