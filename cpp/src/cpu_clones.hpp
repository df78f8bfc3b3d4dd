// For loops that gain from wider vector registers or a population count instruction than every x86-64 has.
//
// WARPLOOM_CPU_CLONES(...) before a function compiles it for the named instruction sets and for the baseline, and picks
// one of them when the program starts. Where the compiler or C library cannot (and on aarch64, whose baseline has both)
// it does nothing. WARPLOOM_INLINE marks what such a function calls: only what is inlined is compiled with it.
#pragma once

#include <cstdint>  // defines which C library this is

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WARPLOOM_CPU_CLONES(...) __attribute__((target_clones(__VA_ARGS__, "default")))
#else
#define WARPLOOM_CPU_CLONES(...)
#endif

#if defined(__GNUC__)
#define WARPLOOM_INLINE inline __attribute__((always_inline))
#else
#define WARPLOOM_INLINE inline
#endif
