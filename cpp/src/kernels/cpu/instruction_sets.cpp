#include "kernels/cpu/instruction_sets.hpp"

#include <cstdlib>
#include <fstream>
#include <string>

namespace warploom {
namespace {

instruction_set widest() {
#if WARPLOOM_HAS_X86_SETS
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  if (avx512) return instruction_set::avx512;
  if (avx2) return instruction_set::avx2;
#endif
  return instruction_set::baseline;
}

std::string said_in_environment() {
  const char* const given = std::getenv("WARPLOOM_CPU");
  return given ? given : "";
}

instruction_set wanted() {
  const instruction_set found = widest();
  const std::string limit = said_in_environment();
  if (limit == "baseline") return instruction_set::baseline;
  if (limit == "avx2" && found == instruction_set::avx512) return instruction_set::avx2;
  return found;
}

// AMD's AVX-512 takes a gather apart: sums of rows are slower with it than with one load after the other.
bool is_amd() {
#if WARPLOOM_HAS_X86_SETS
  __builtin_cpu_init();
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

bool gathers_are_slowed_down() {
  std::ifstream file("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling");
  std::string state;
  return std::getline(file, state) && state.find("Microcode") != std::string::npos &&
         state.find("No microcode") == std::string::npos;
}

}  // namespace

instruction_set best_instruction_set() {
  static const instruction_set best = wanted();
  return best;
}

bool has_fast_gathers() {
  static const bool fast = said_in_environment() == "avx512" || (!is_amd() && !gathers_are_slowed_down());
  return fast;
}

}  // namespace warploom
