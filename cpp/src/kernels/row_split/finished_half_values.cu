// row_split with an epilogue for float16 and bfloat16.
#include "kernels/row_split/finished.cuh"

namespace warploom::cuda::row_split {

WARPLOOM_FINISH(__half)
WARPLOOM_FINISH(__nv_bfloat16)

}  // namespace warploom::cuda::row_split
