// Kernels compiled for several instruction sets, one of which is taken when the program runs.
//
// WARPLOOM_FOR_AVX512 and WARPLOOM_FOR_AVX2 stand before a function that is compiled for that set; what it calls is
// compiled with it only where it is inlined (WARPLOOM_INLINE). Where the compiler cannot, both are the baseline.
#pragma once

#include "cpu_clones.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#define WARPLOOM_HAS_X86_SETS 1
#define WARPLOOM_FOR_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define WARPLOOM_FOR_AVX2 __attribute__((target("avx2,fma")))
#else
#define WARPLOOM_HAS_X86_SETS 0
#define WARPLOOM_FOR_AVX512
#define WARPLOOM_FOR_AVX2
#endif

namespace warploom {

enum class instruction_set { baseline, avx2, avx512 };

// The widest that this processor has. WARPLOOM_CPU=baseline or avx2 in the environment takes less.
instruction_set best_instruction_set();

// Whether loads from several places at once (gathers) are faster than one load after the other. They are not on AMD
// processors, nor with the remedy against Downfall (CVE-2022-40982). WARPLOOM_CPU=avx512 takes them in any case.
bool has_fast_gathers();

}  // namespace warploom
