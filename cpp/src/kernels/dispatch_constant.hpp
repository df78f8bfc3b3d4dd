// Kernels are compiled for each value of some parameters: this selects the one for a value known only at run time.
#pragma once

#include <type_traits>
#include <utility>

namespace warploom::cuda {

// Calls `function(std::integral_constant<int, V>{})` with the one of the listed values that `value` is. Descriptions of
// kernels let no other values through; the last listed one is taken for any other value.
template <int First, int... Others, class Function>
decltype(auto) dispatch_constant(int value, Function&& function) {
  if constexpr (sizeof...(Others) == 0) {
    return function(std::integral_constant<int, First>{});
  } else {
    if (value == First) return function(std::integral_constant<int, First>{});
    return dispatch_constant<Others...>(value, std::forward<Function>(function));
  }
}

}  // namespace warploom::cuda
