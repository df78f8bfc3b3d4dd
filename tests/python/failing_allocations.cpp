// Preloaded into Python by test_out_of_memory.py: operator new that fails when it is told to.
//
// Small allocations do not fail. pybind11 makes some where it does not expect an exception (it notes the address of
// every object that it hands out), and ends the process.
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t small = 48;

std::atomic<long> passed{0};
std::atomic<long> first_to_fail{-1};  // -1: none
std::atomic<bool> later_ones_fail{false};

bool fails(std::size_t size) {
  if (size <= small || first_to_fail < 0) return false;
  const long number = passed++;
  return number == first_to_fail || (number > first_to_fail && later_ones_fail);
}

}  // namespace

extern "C" void start_failing(long first, int later_ones) {
  passed = 0;
  later_ones_fail = later_ones != 0;
  first_to_fail = first;
}

// Returns whether any has failed.
extern "C" int stop_failing() {
  const bool failed = passed > first_to_fail;
  first_to_fail = -1;
  return failed;
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return fails(size) ? nullptr : std::malloc(size > 0 ? size : 1);
}

void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
