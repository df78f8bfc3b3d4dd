#include "allocation_failure.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local int allocations_left = -1;  // -1: none fails

}  // namespace

// These replace the allocation of the whole test program. Each form that a `delete` below may be given the memory of is
// here, or AddressSanitizer, which replaces the others, would find that they do not match.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (allocations_left >= 0 && allocations_left-- == 0) return nullptr;
  return std::malloc(size > 0 ? size : 1);
}

void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace warploom::test {

allocation_failure::allocation_failure(int countdown) { allocations_left = countdown; }
allocation_failure::~allocation_failure() { allocations_left = -1; }
bool allocation_failure::happened() const { return allocations_left < 0; }

}  // namespace warploom::test
