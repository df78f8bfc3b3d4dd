// Column vectors where they hold enough nonzeros, and CSR for all other rows: windows of 8 rows are stored in one or
// the other. A window whose rows repeat a column is never stored as vectors, so that no entries are added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/bsr.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

#ifdef __CUDACC__
#define WARPLOOM_HYBRID_HOST_DEVICE __host__ __device__
#else
#define WARPLOOM_HYBRID_HOST_DEVICE
#endif

// Whether a window without repeated columns is stored as vectors.
WARPLOOM_HYBRID_HOST_DEVICE constexpr bool is_stored_as_vectors(std::int64_t vectors, std::int64_t nonzeros,
                                                                int nonzeros_per_vector) {
  return vectors > 0 && nonzeros >= vectors * nonzeros_per_vector;
}

#undef WARPLOOM_HYBRID_HOST_DEVICE

struct hybrid_vectors {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  int nonzeros_per_vector = 0;
  std::vector<std::int32_t> vector_rows;  // row p of `vectors` is this row of the matrix: whole windows, in their order
  bsr_matrix vectors;
  std::vector<std::int32_t> other_rows;  // and row p of `others` this one
  csr_matrix others;

  std::int64_t nnz() const { return vectors.nnz() + others.nnz(); }
  std::int64_t places() const { return vectors.places() + others.nnz(); }
  std::size_t bytes() const;
  std::vector<format_field> fields() const;
};

// Throws error_kind::parameter unless it is 1 to 8.
void check_nonzeros_per_vector(int nonzeros_per_vector);

// Stores a window as vectors if they hold `nonzeros_per_vector` nonzeros each or more, on average.
hybrid_vectors to_hybrid_vectors(const csr_view& matrix, int nonzeros_per_vector);

// Entries in the order of their columns in windows that are stored as vectors, and elsewhere in their stored order.
csr_matrix to_csr(const hybrid_vectors& matrix);

}  // namespace warploom
