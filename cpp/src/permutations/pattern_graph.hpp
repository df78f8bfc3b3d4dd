// The graph of a matrix in which the orders for locality look for rows that are near each other.
//
//   square matrices: the nodes are the rows; i and j are neighbours if A + A^T has an entry (i, j) and i != j.
//   others: the nodes are the rows, then the columns; row i and column j are neighbours if A has an entry (i, j). Rows
//     that share a column are two steps apart, as they would be neighbours in A A^T, which is never formed. Columns
//     without entries may be left out.
//
// Every edge is there once from either side; the neighbours of a node ascend.
#pragma once

#include <cstdint>
#include <vector>

#include "warploom/csr_view.hpp"

namespace warploom {

class pattern_graph {
 public:
  explicit pattern_graph(const csr_pattern& matrix);

  std::int64_t num_nodes() const { return static_cast<std::int64_t>(indptr_.size()) - 1; }
  std::int64_t num_rows() const { return num_rows_; }  // the first nodes
  bool is_bipartite() const { return bipartite_; }
  std::int64_t degree(std::int32_t node) const { return indptr_[node + 1] - indptr_[node]; }

  template <class Visit>
  void for_each_neighbour(std::int32_t node, Visit&& visit) const {
    for (std::int64_t j = indptr_[node]; j < indptr_[node + 1]; ++j) visit(neighbours_[j]);
  }

  // Asks for the neighbours of nodes that will be visited soon: `soon` next, `later` after some more.
  void prefetch(std::int32_t soon, std::int32_t later) const {
    __builtin_prefetch(indptr_.data() + later);
    // A number, since the second cache line may lie behind the array, of which there may be none.
    const auto first = reinterpret_cast<std::uintptr_t>(neighbours_.data() + indptr_[soon]);
    __builtin_prefetch(reinterpret_cast<const void*>(first));
    __builtin_prefetch(reinterpret_cast<const void*>(first + 64));
  }

 private:
  std::vector<std::int64_t> indptr_;
  std::vector<std::int32_t> neighbours_;
  std::int64_t num_rows_ = 0;
  bool bipartite_ = false;
};

}  // namespace warploom
