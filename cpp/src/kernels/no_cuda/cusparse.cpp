#include "warploom/cusparse.hpp"

#include "kernels/no_cuda/no_cuda.hpp"

namespace warploom {

void load_cusparse(const std::string&) { no_cuda(); }
std::string cusparse_version() { return ""; }

}  // namespace warploom
