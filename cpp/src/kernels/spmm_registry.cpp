#include <string>

#include "warploom/error.hpp"
#include "warploom/kernels/spmm.hpp"

namespace warploom {

std::span<const spmm_kernel> spmm_kernels() { return {}; }

const spmm_kernel& find_spmm_kernel(std::string_view format, std::string_view name) {
  std::string known;
  for (const auto& kernel : spmm_kernels()) {
    if (kernel.format == format && kernel.name == name) return kernel;
    known += (known.empty() ? "" : ", ") + kernel.format + "/" + kernel.name;
  }
  throw error(error_kind::parameter, "candidate", -1,
              "unknown SpMM kernel '" + std::string(format) + "/" + std::string(name) + "'; known: " + known);
}

}  // namespace warploom
