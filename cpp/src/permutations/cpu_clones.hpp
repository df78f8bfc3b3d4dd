// WARPLOOM_CPU_CLONES before a function compiles it for several x86-64 levels and picks one when the program starts.
// Elsewhere (aarch64 has its vector unit always, other C libraries lack the dispatch) it does nothing.
#pragma once

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define WARPLOOM_CPU_CLONES __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define WARPLOOM_CPU_CLONES
#endif
