// row_split for float32 and float64.
#include "kernels/row_split/row_split.cuh"

namespace warploom::cuda::row_split {

template std::unique_ptr<product_plan> make_plan<float>(const device_csr&, stored_as, const product_request&,
                                                        const device_allocator&);
template std::unique_ptr<product_plan> make_plan<double>(const device_csr&, stored_as, const product_request&,
                                                         const device_allocator&);

}  // namespace warploom::cuda::row_split
