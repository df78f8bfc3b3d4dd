// Memory for a large array that is read at random: on huge pages where Linux has them, so that a read that misses the
// caches does not also have to look for its page. Small arrays are only aligned to cache lines.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace warploom {

template <class Value>
struct huge_page_allocator {
  using value_type = Value;

  static constexpr std::size_t page = std::size_t{1} << 21;

  huge_page_allocator() = default;
  template <class Other>
  huge_page_allocator(const huge_page_allocator<Other>&) {}

  static std::align_val_t alignment(std::size_t bytes) { return std::align_val_t{bytes < page ? 64 : page}; }

  Value* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(Value)) throw std::bad_array_new_length();
    const std::size_t bytes = count * sizeof(Value);
    void* const memory = ::operator new(bytes, alignment(bytes));
#ifdef __linux__
    if (bytes >= page) madvise(memory, bytes, MADV_HUGEPAGE);  // a hint: what it returns makes no difference
#endif
    return static_cast<Value*>(memory);
  }

  void deallocate(Value* memory, std::size_t count) { ::operator delete(memory, alignment(count * sizeof(Value))); }

  bool operator==(const huge_page_allocator&) const = default;
};

template <class Value>
using huge_vector = std::vector<Value, huge_page_allocator<Value>>;

}  // namespace warploom
