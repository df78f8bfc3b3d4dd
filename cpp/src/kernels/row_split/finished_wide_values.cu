// row_split with an epilogue for float32 and float64.
#include "kernels/row_split/finished.cuh"

namespace warploom::cuda::row_split {

WARPLOOM_FINISH(float)
WARPLOOM_FINISH(double)

}  // namespace warploom::cuda::row_split
