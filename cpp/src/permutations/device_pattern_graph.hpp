// The graph of pattern_graph.hpp in the memory of a GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "device/device_csr.hpp"
#include "device/workspace.hpp"

namespace warploom {

// Every edge is there once from either side, and the neighbours of a node ascend. The matrix itself is the graph if it
// is square, the columns of each row ascend strictly, and its pattern is symmetric; nodes may then be neighbours of
// themselves, which counts for no degree. Symmetry is tested by a sum of 64-bit hashes, that of (row, column) minus
// that of (column, row) for every nonzero: 0 if the pattern is symmetric, and else with a probability of 2^-64. Any
// other matrix is transposed and merged with its transpose, which takes 20 bytes of memory a nonzero; 28 if columns do
// not ascend.
struct device_pattern_graph {
  const std::int32_t* indptr = nullptr;
  const std::int32_t* neighbours = nullptr;
  std::int32_t num_nodes = 0;   // the rows; and then the columns, all of them, if the matrix is not square
  cuda::pooled_memory degrees;  // std::int32_t, [num_nodes]

  // Nothing if the numbers of nodes or edges might not fit into 31 bits, or if most nodes would be empty columns.
  static std::optional<device_pattern_graph> of(const device_csr& matrix);

 private:
  friend class device_graph_builder;
  explicit device_pattern_graph(std::int32_t nodes, cudaStream_t stream)
      : num_nodes(nodes), degrees(nodes * sizeof(std::int32_t), stream) {}

  std::optional<cuda::pooled_memory> own_indptr_, own_neighbours_;
};

}  // namespace warploom
