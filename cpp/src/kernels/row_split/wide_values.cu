// row_split for float32 and float64.
#include "kernels/row_split/row_split.cuh"

namespace warploom::cuda::row_split {

template std::unique_ptr<product_plan> make_plan<float>(const device_csr&, stored_as, const product_request&,
                                                        const device_allocator&);
template std::unique_ptr<product_plan> make_plan<double>(const device_csr&, stored_as, const product_request&,
                                                         const device_allocator&);

template <class Value>
void multiply_segments(const launcher<Value, segment_items<Value>>& launch, const segment_items<Value>& items,
                       const row_major_operands<Value>& operands, std::int64_t rows_of_B, cudaStream_t stream) {
  launch(items, operands, rows_of_B, stream);
}

template void multiply_segments(const launcher<float, segment_items<float>>&, const segment_items<float>&,
                                const row_major_operands<float>&, std::int64_t, cudaStream_t);

}  // namespace warploom::cuda::row_split
