#include "device/release.hpp"

#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "warploom/device.hpp"
#include "warploom/process_mutex.hpp"

namespace warploom {
namespace {

struct kept_thing {
  int device;
  void* thing;
  void (*release)(void*);
};

struct all_kept_things {
  process_mutex changing;
  std::vector<kept_thing> things;
};

std::atomic<std::size_t> kept_count{0};

// Never destroyed: plans may be dropped later than that.
all_kept_things& all_kept() {
  alignas(all_kept_things) static std::byte memory[sizeof(all_kept_things)];
  static all_kept_things& all = *new (memory) all_kept_things;
  return all;
}

// False if there is no memory to note it.
bool keep(const kept_thing& one) noexcept {
  try {
    all_kept_things& all = all_kept();
    const std::lock_guard<process_mutex> lock(all.changing);
    all.things.push_back(one);
    kept_count = all.things.size();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::atomic<bool (*)() noexcept> captures{nullptr};

}  // namespace

bool graph_is_captured() noexcept {
  const auto query = captures.load();
  return query != nullptr && query();
}

void find_captures_by(bool (*query)() noexcept) noexcept { captures = query; }

void release_after_work(int device, void* thing, void (*release)(void*)) noexcept {
  if (thing == nullptr) return;
  if (graph_is_captured() && keep({device, thing, release})) return;
  wait_for_device();
  release(thing);
  release_kept();
}

void release_kept() noexcept {
  if (kept_count == 0) return;
  std::vector<kept_thing> things;
  try {
    all_kept_things& all = all_kept();
    const std::lock_guard<process_mutex> lock(all.changing);
    things.swap(all.things);
    kept_count = 0;
  } catch (const std::bad_alloc&) {
    return;  // the mutex of a child that was forked: the next time
  }
  // Not under the lock: what is released may call Python.
  for (const kept_thing& one : things) {
    std::optional<device_guard> there;
    try {
      there.emplace(one.device);
    } catch (...) {
      // There is nothing to wait for on a device that has failed.
    }
    if (graph_is_captured() && keep(one)) continue;
    if (there) wait_for_device();
    one.release(one.thing);
  }
}

}  // namespace warploom
