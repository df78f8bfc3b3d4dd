// row_split for float16 and bfloat16.
#include "kernels/row_split/row_split.cuh"

namespace warploom::cuda::row_split {

template std::unique_ptr<product_plan> make_plan<__half>(const device_csr&, stored_as, const product_request&,
                                                         const device_allocator&);
template std::unique_ptr<product_plan> make_plan<__nv_bfloat16>(const device_csr&, stored_as, const product_request&,
                                                                const device_allocator&);

}  // namespace warploom::cuda::row_split
