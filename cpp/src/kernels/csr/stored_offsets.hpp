#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "warploom/csr_view.hpp"

namespace warploom {

// Row offsets of the matrix once its rows are moved: stored row p is row perm[p], or row p if `perm` is empty.
std::vector<std::int64_t> stored_offsets(const csr_pattern& matrix, std::span<const std::int32_t> perm);

}  // namespace warploom
