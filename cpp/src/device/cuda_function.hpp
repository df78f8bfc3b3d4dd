// How plain C++ refers to what only builds with CUDA have.
#pragma once

// A function that a .cu file defines. Builds without CUDA have none of those files: there it is null. Whoever calls it
// makes a device_guard first, which throws the one error of such a build.
#if WARPLOOM_WITH_CUDA
#define WARPLOOM_CUDA(function) (&(function))
#else
#define WARPLOOM_CUDA(function) static_cast<decltype(&(function))>(nullptr)
#endif
