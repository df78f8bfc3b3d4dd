#include "allocation_failure.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

#ifdef __GLIBC__
#include <pthread.h>
#endif

namespace {

thread_local int left_in_thread = -1;  // allocations until one fails; -1: none does

// The same for all threads.
std::atomic<bool> counting{false};
std::atomic<std::int64_t> allocations{0};
std::atomic<std::int64_t> first_to_fail{0};
std::atomic<bool> later_ones_fail{false};

std::atomic<std::int64_t> live{0};

bool fails() {
  if (left_in_thread >= 0 && left_in_thread-- == 0) return true;
  if (!counting) return false;
  const std::int64_t number = allocations++;
  return number == first_to_fail || (number > first_to_fail && later_ones_fail);
}

void* counted(void* memory) {
  if (memory != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void free_counted(void* memory) {
  if (memory != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

// These replace the allocation of the whole test program. Each form that a `delete` below may be given the memory of is
// here, or AddressSanitizer, which replaces the others, would find that they do not match.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (fails()) return nullptr;
  return counted(std::malloc(size > 0 ? size : 1));
}

void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}

void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  void* const memory = fails() ? nullptr : counted(std::aligned_alloc(unit, (size + unit) / unit * unit));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept { free_counted(memory); }
void operator delete(void* memory, std::size_t) noexcept { free_counted(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free_counted(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { free_counted(memory); }

namespace warploom::test {

allocation_failure::allocation_failure(int countdown, failing which) {
  if (which == failing::one) {
    left_in_thread = countdown;
    return;
  }
  allocations = 0;
  first_to_fail = countdown;
  later_ones_fail = which == failing::all_from_then_on;
  counting = true;
}

allocation_failure::~allocation_failure() {
  left_in_thread = -1;
  counting = false;
}

bool allocation_failure::happened() const { return counting ? allocations > first_to_fail : left_in_thread < 0; }

std::int64_t live_allocations() { return live.load(); }

#ifdef __GLIBC__
namespace {

// By default, new threads get a stack of this size.
void set_stack_size(std::size_t size) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

std::size_t usual_stack_size() {
  static const std::size_t size = [] {
    pthread_attr_t attributes;
    pthread_getattr_default_np(&attributes);
    std::size_t found = 0;
    pthread_attr_getstacksize(&attributes, &found);
    pthread_attr_destroy(&attributes);
    return found;
  }();
  return size;
}

}  // namespace

no_new_threads::no_new_threads() {
  usual_stack_size();
  set_stack_size(std::size_t{1} << 60);  // which no address space holds
}
no_new_threads::~no_new_threads() { set_stack_size(usual_stack_size()); }
#endif

}  // namespace warploom::test
