// Scans, sorts and selections of arrays in GPU memory, from CUB, compiled once for everything that converts a matrix.
// All are enqueued on a stream of the current device.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace warploom::cuda {

// to[i] = from[0] + ... + from[i - 1]. They may be the same array.
void exclusive_scan(const std::int32_t* from, std::int32_t* to, std::int64_t size, cudaStream_t stream);
void exclusive_scan(const std::int64_t* from, std::int64_t* to, std::int64_t size, cudaStream_t stream);
void exclusive_scan(const std::int32_t* from, std::int64_t* to, std::int64_t size, cudaStream_t stream);
// The same of four sums at a time.
void exclusive_scan(const int4* from, int4* to, std::int64_t size, cudaStream_t stream);
// to[i] = first + from[0] + ... + from[i - 1].
void exclusive_scan(const std::uint32_t* from, std::uint32_t* to, std::int64_t size, std::uint32_t first,
                    cudaStream_t stream);

// to[i] = number of bits that are set in masks[0], ..., masks[i - 1].
void exclusive_scan_of_bits(const std::uint32_t* masks, std::int32_t* to, std::int64_t size, cudaStream_t stream);

// Stable. Only the lowest `bits` bits of the keys are compared. Results go to other arrays.
void sort_pairs(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::int32_t* values,
                std::int32_t* sorted_values, std::int64_t size, int bits, cudaStream_t stream);
void sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::int32_t* values,
                std::int32_t* sorted_values, std::int64_t size, int bits, cudaStream_t stream);
void sort_pairs(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::uint64_t* values,
                std::uint64_t* sorted_values, std::int64_t size, int bits, cudaStream_t stream);
void sort_pairs_descending(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::int32_t* values,
                           std::int32_t* sorted_values, std::int64_t size, int bits, cudaStream_t stream);

void sort_keys(const std::uint64_t* keys, std::uint64_t* sorted_keys, std::int64_t size, int bits, cudaStream_t stream);

void sort_descending(const std::uint32_t* keys, std::uint32_t* sorted_keys, std::int64_t size, int bits,
                     cudaStream_t stream);

// The first of every run of equal elements, with the length of the run or the sum of its values; `*count` (in GPU
// memory) becomes how many runs there are.
void count_runs(const std::uint64_t* from, std::uint64_t* to, std::int32_t* lengths, std::int32_t* count,
                std::int64_t size, cudaStream_t stream);
void sum_runs(const std::uint64_t* from, const std::int32_t* values, std::uint64_t* to, std::int32_t* sums,
              std::int32_t* count, std::int64_t size, cudaStream_t stream);

// The positions i < size with flags[i] != 0, in order; `*count` (in GPU memory) becomes how many there are.
void select_positions(const std::uint8_t* flags, std::int32_t* positions, std::int32_t* count, std::int64_t size,
                      cudaStream_t stream);

// Bits that hold every number from 0 to `largest`.
int bits_for(std::uint64_t largest);

}  // namespace warploom::cuda
