// The instances of row_split with an epilogue.
#pragma once

#include "kernels/row_split/row_split.cuh"

namespace warploom::cuda::row_split {

template <class Value, class Items>
bool finish(const launcher<Value, Items>& launch, const Items& items, const finishing_operands<Value>& operands,
            std::int64_t rows_of_B, cudaStream_t stream) {
  return launch.finish(items, operands, rows_of_B, stream);
}

#define WARPLOOM_FINISH_ITEMS(Value, Items)                                                                         \
  template bool finish(const launcher<Value, Items<Value>>&, const Items<Value>&, const finishing_operands<Value>&, \
                       std::int64_t, cudaStream_t);
#define WARPLOOM_FINISH(Value)               \
  WARPLOOM_FINISH_ITEMS(Value, row_items)    \
  WARPLOOM_FINISH_ITEMS(Value, padded_items) \
  WARPLOOM_FINISH_ITEMS(Value, segment_items)

}  // namespace warploom::cuda::row_split
