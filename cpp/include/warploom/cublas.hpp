// cuBLAS, the vendor's library for dense matrices: what multiplies matrices that are stored as dense ones, never a
// dependency. It is opened at run time, as cuSPARSE is; of its two libraries the one called cublasLt.
#pragma once

#include <string>

namespace warploom {

// Opens the library, or throws error_kind::device with the reason. Opening it twice is fine.
void load_cublas(const std::string& path);

// "12.6.3", or "" while no library is open.
std::string cublas_version();

}  // namespace warploom
