#include <atomic>
#include <string>

#include "warploom/device.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

// Allocations until one fails; none does at 0 or below.
std::atomic<int> countdown{0};
std::atomic<bool> failed{false};

}  // namespace

bool fail_device_allocation(int after) {
  countdown = after;
  return failed.exchange(false);
}

void device_allocation_may_fail(std::size_t bytes) {
  if (countdown.load(std::memory_order_relaxed) <= 0 || countdown.fetch_sub(1) != 1) return;
  failed = true;
  throw error(error_kind::out_of_memory, "", -1, std::to_string(bytes) + " bytes were refused by a test");
}

}  // namespace warploom
