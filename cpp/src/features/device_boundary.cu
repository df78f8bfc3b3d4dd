#include <algorithm>
#include <string>
#include <vector>

#include "device/device_csr.hpp"
#include "features/device_boundary.hpp"

namespace warploom {

device_csr_arrays arrays_of(const device_csr& matrix) {
  device_csr_arrays arrays;
  arrays.num_rows = matrix.num_rows();
  arrays.num_cols = matrix.num_cols();
  arrays.num_indices = matrix.nnz();
  arrays.indptr = matrix.wide() ? static_cast<const void*>(matrix.indptr64()) : matrix.indptr32();
  arrays.indices = matrix.indices();
  arrays.wide_indptr = matrix.wide();
  return arrays;
}

namespace cuda {
namespace {

[[noreturn]] void malformed(const char* argument, std::int64_t position, const std::string& message) {
  throw error(error_kind::invalid_matrix, argument, position, message);
}

std::string number(std::int64_t value) { return std::to_string(value); }

[[noreturn]] void too_few_indices(std::int64_t position, std::int64_t nnz, std::int64_t num_indices) {
  malformed("indptr", position,
            "indptr ends at " + number(nnz) + " but there are only " + number(num_indices) + " indices");
}

template <class T>
std::vector<T> download(const void* from, std::int64_t size, cudaStream_t stream) {
  std::vector<T> host(size);
  copy_to_host(host.data(), from, size * sizeof(T), stream);
  return host;
}

template <class T>
std::vector<std::int32_t> download_indices(const device_csr_arrays& matrix, std::int64_t nnz, cudaStream_t stream) {
  std::vector<T> indices = download<T>(matrix.indices, nnz, stream);
  validate_indices(indices.data(), nnz, matrix.num_cols);
  if constexpr (sizeof(T) == 4) {
    return indices;
  } else {
    return {indices.begin(), indices.end()};
  }
}

}  // namespace

namespace {

std::int64_t read_entry(const void* array, bool wide, std::int64_t position) {
  if (wide) {
    std::int64_t entry = 0;
    copy_to_host(&entry, static_cast<const std::int64_t*>(array) + position, sizeof entry, nullptr);
    return entry;
  }
  std::int32_t entry = 0;
  copy_to_host(&entry, static_cast<const std::int32_t*>(array) + position, sizeof entry, nullptr);
  return entry;
}

// "indptr[2] = 1"
std::string entry_of(const char* name, const void* array, bool wide, std::int64_t position) {
  return std::string(name) + "[" + number(position) + "] = " + number(read_entry(array, wide, position));
}

}  // namespace

void check_offsets(const offset_findings& found, const device_csr_arrays& matrix) {
  if (found.first != 0) malformed("indptr", 0, "indptr[0] must be 0, got " + number(found.first));
  if (found.decrease != no_position) {
    const std::int64_t position = as_position(found.decrease);
    malformed("indptr", position,
              "indptr must not decrease, but " + entry_of("indptr", matrix.indptr, matrix.wide_indptr, position) +
                  " < " + entry_of("indptr", matrix.indptr, matrix.wide_indptr, position - 1));
  }
  if (found.out_of_range != no_position) {
    too_few_indices(as_position(found.out_of_range), found.nnz, matrix.num_indices);
  }
}

void check_indices(std::uint64_t outside, std::int64_t nnz, const device_csr_arrays& matrix) {
  if (matrix.num_cols == 0 && nnz > 0) outside = as_maximum(0);  // no kernel has checked
  if (outside == no_position) return;
  const std::int64_t position = as_position(outside);
  malformed("indices", position,
            entry_of("indices", matrix.indices, matrix.wide_indices, position) + " is outside [0, " +
                number(matrix.num_cols) + ")");
}

std::vector<double> compute_on_host(const feature_set& set, const device_csr_arrays& matrix, const geometry& shape,
                                    cudaStream_t stream) {
  std::vector<std::int64_t> indptr;
  if (matrix.wide_indptr) {
    indptr = download<std::int64_t>(matrix.indptr, matrix.num_rows + 1, stream);
  } else {
    const auto narrow = download<std::int32_t>(matrix.indptr, matrix.num_rows + 1, stream);
    indptr.assign(narrow.begin(), narrow.end());
  }
  validate_indptr(indptr.data(), matrix.num_rows);
  const std::int64_t nnz = indptr.back();
  if (nnz > matrix.num_indices) {
    too_few_indices(std::upper_bound(indptr.begin(), indptr.end(), matrix.num_indices) - indptr.begin(), nnz,
                    matrix.num_indices);
  }
  const std::vector<std::int32_t> indices = matrix.wide_indices ? download_indices<std::int64_t>(matrix, nnz, stream)
                                                                : download_indices<std::int32_t>(matrix, nnz, stream);
  std::vector<double> values(set.names.size());
  set.compute({matrix.num_rows, matrix.num_cols, indptr.data(), indices.data()}, shape, values.data());
  return values;
}

}  // namespace cuda
}  // namespace warploom
