// Kernels that measure where products spend their time, which leave out parts of a product, and what they write to y is
// for tests only; and the vendor's library as a program in C calls it. Defined in builds with CUDA alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "warploom/csr_view.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// CSR-vector with parts left out. Every variant reads row offsets, columns and values and writes y.
struct csr_parts {
  int threads_per_row = 1;  // 1, 2, 4, 8, 16 or 32
  bool gather = true;       // read x[column] of every nonzero; otherwise, one x[row] for each row
  bool arithmetic = true;   // multiply and add; otherwise, only combine the bits
};

// With arithmetic, y[i] is the product, or without the gather x[i] times the sum of row i. Without it, y[i] is x[i].
// x[i] counts as 0 for rows i that x has no entry for. Throws error_kind::parameter for parameters out of range, for
// other value types than float32 and float64, and for 2^31 nonzeros and more.
std::unique_ptr<product_plan> prepare_csr_parts(std::shared_ptr<const device_csr> matrix, const csr_parts& parts);

// Reserves the shared memory that a CMRS strip of `height` rows takes, and does nothing of the product but read columns
// and values (Koza et al. 2014, Sec. 6.3).
struct cmrs_read {
  static constexpr int max_height = 64;

  int height = 1;      // 1 to max_height
  bool strips = true;  // a warp reads a strip, and writes its y; otherwise, segments of equal length, and no y
};

// With strips, y[i] is the bitwise "or" of the columns and values (their 32-bit words) that thread i % height % 32 of a
// warp has read, without the last 8 bits. Throws as prepare_csr_parts does.
std::unique_ptr<product_plan> prepare_cmrs_read(std::shared_ptr<const device_csr> matrix, const cmrs_read& read,
                                                const device_allocator& allocate);

// Occupancy: the share of the threads of a multiprocessor of the current device that can be resident with this kernel.
double cmrs_read_occupancy(value_type dtype, const cmrs_read& read);

// A product of cuSPARSE's with a matrix in CSR, as a program in C asks for it. B and C are row-major. Arrays are given
// by their addresses, and nothing is checked about them.
struct vendor_problem {
  static constexpr int spmv_algorithms = 3;  // the default, CSR_ALG1 and CSR_ALG2
  static constexpr int spmm_algorithms = 4;  // the default and CSR_ALG1 to CSR_ALG3

  operation op = operation::spmv;
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::int64_t nnz = 0;
  const void* indptr = nullptr;
  const void* indices = nullptr;
  const void* data = nullptr;
  bool wide_indices = false;  // row offsets and columns are int64 rather than int32
  bool on_host = false;       // the arrays are in host memory: copying them is part of planning
  value_type dtype = value_type::float32;
  std::int64_t k = 1;  // columns of B
  int algorithm = 0;
  bool preprocess = false;
};

// Microseconds on the clock of the host.
struct vendor_times {
  double planning_us = 0;  // descriptors, the buffer and its allocation, preprocessing; the handle is there already
  double first_us = 0;     // after that, until one product is done
  double products_us = 0;  // after that, until the others are done
  std::size_t buffer_bytes = 0;
};

// Plans and waits, multiplies once and waits, multiplies `products` times and waits. Throws error_kind::device where
// cuSPARSE refuses.
vendor_times time_vendor(const vendor_problem& problem, const void* B, void* C, int products);

// Plans, multiplies `products` times, and waits at the end only.
double time_vendor_until(const vendor_problem& problem, const void* B, void* C, int products);

}  // namespace warploom
