// Checks of their arrays that the feature kernels share.
#pragma once

#include <cstdint>
#include <vector>

#include "device/workspace.hpp"
#include "features/sets.hpp"
#include "host_device.hpp"

namespace warploom::cuda {

// The first of several positions, found as a maximum: zeroed memory then means that there is none.
inline constexpr std::uint64_t no_position = 0;
WARPLOOM_HOST_DEVICE std::uint64_t as_maximum(std::uint64_t position) { return ~position; }
inline std::int64_t as_position(std::uint64_t maximum) { return static_cast<std::int64_t>(~maximum); }

// What a pass over indptr finds, with maxima for positions.
struct offset_findings {
  std::int64_t first;          // indptr[0]
  std::int64_t nnz;            // indptr[num_rows]
  std::uint64_t decrease;      // position of the first entry below the one before it
  std::uint64_t out_of_range;  // position of the first entry beyond the indices
};

// Throws invalid_matrix as the boundary does for a matrix in host memory: argument "indptr", the same position.
void check_offsets(const offset_findings& found, const device_csr_arrays& matrix);

// Throws invalid_matrix for the first index outside [0, num_cols), as a maximum.
void check_indices(std::uint64_t outside, std::int64_t nnz, const device_csr_arrays& matrix);

// The statistics of rows, enqueued on a stream.
class pending_row_statistics {
 public:
  pending_row_statistics(const device_csr_arrays& matrix, cudaStream_t stream);

  // Once the stream has been synchronised. Throws invalid_matrix as check_offsets.
  row_statistics read() const;

 private:
  device_csr_arrays matrix_;
  pinned_memory results_;
  int blocks_;
};

// The same, and whether all columns exist, in one launch. 64-bit offsets and columns are also written as 32-bit ones;
// those of a malformed matrix are of no use.
class pending_matrix_check {
 public:
  // `narrow_indptr` and `narrow_indices` are used where the matrix is wide.
  pending_matrix_check(const device_csr_arrays& matrix, std::int32_t* narrow_indptr, std::int32_t* narrow_indices,
                       cudaStream_t stream);

  // Once the stream has been synchronised. Throws invalid_matrix as check_offsets and check_indices.
  row_statistics read() const;

 private:
  device_csr_arrays matrix_;
  pinned_memory of_rows_;
  pinned_memory of_indices_;
  int row_blocks_;
  int index_blocks_;
};

// The columns of a matrix whose arrays are known to be sound, sorted within rows: nnz int32.
pooled_memory sort_columns(const device_csr_arrays& matrix, std::int64_t nnz, cudaStream_t stream);

// Copies the pattern to the host and computes the features there.
std::vector<double> compute_on_host(const feature_set& set, const device_csr_arrays& matrix, const geometry& shape,
                                    cudaStream_t stream);

}  // namespace warploom::cuda
