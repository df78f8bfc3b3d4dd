// Kernels that measure where products spend their time: they leave out parts of a product, and what they write to y is
// for tests only. Defined in builds with CUDA alone.
#pragma once

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

}  // namespace warploom
