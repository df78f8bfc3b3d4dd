// cuSPARSE, the vendor's library: a measured baseline and a candidate like any other, never a dependency. It is opened
// at run time from the path that Python's cuda-pathfinder found.
#pragma once

#include <string>

namespace warploom {

// Opens the library, or throws error_kind::device with the reason. Opening it twice is fine.
void load_cusparse(const std::string& path);

// "12.6.3", or "" while no library is open.
std::string cusparse_version();

}  // namespace warploom
