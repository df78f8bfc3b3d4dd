// Products that a plan computes again and again.
#pragma once

#include <cstdint>

#include "device/replay.hpp"
#include "warploom/kernels/epilogue.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// All that the kernels of a product are given beside the plan.
struct product_call {
  dense_view B, C;
  epilogue by{};
  void* dot = nullptr;                // B . C is written there; null: it is not asked for
  const void* copied_from = nullptr;  // where B and C are copied from and to; null: they are not
  void* copied_to = nullptr;

  bool operator==(const product_call&) const = default;
};

// Whether one takes the memory and the kernels that the other does.
inline bool is_alike(const product_call& a, const product_call& b) {
  const auto alike = [](const dense_view& u, const dense_view& v) {
    constexpr std::uintptr_t widest_access = 128;
    const auto offset = [](const dense_view& view) {
      return reinterpret_cast<std::uintptr_t>(view.data) % widest_access;
    };
    return u.num_cols == v.num_cols && u.leading_dimension == v.leading_dimension && offset(u) == offset(v);
  };
  return alike(a.B, b.B) && alike(a.C, b.C) && a.by.changes_nothing() == b.by.changes_nothing() &&
         (a.dot == nullptr) == (b.dot == nullptr);
}

class product_replays : public replays<product_call> {};

}  // namespace warploom
