// row_split for float16 and bfloat16.
#include "kernels/row_split/row_split.cuh"

namespace warploom::cuda::row_split {

template std::unique_ptr<product_plan> make_plan<__half>(const device_csr&, stored_as, const product_request&,
                                                         const device_allocator&);
template std::unique_ptr<product_plan> make_plan<__nv_bfloat16>(const device_csr&, stored_as, const product_request&,
                                                                const device_allocator&);

template <class Value>
void multiply_segments(const launcher<Value, segment_items<Value>>& launch, const segment_items<Value>& items,
                       const row_major_operands<Value>& operands, std::int64_t rows_of_B, cudaStream_t stream) {
  launch(items, operands, rows_of_B, stream);
}

template void multiply_segments(const launcher<__half, segment_items<__half>>&, const segment_items<__half>&,
                                const row_major_operands<__half>&, std::int64_t, cudaStream_t);
template void multiply_segments(const launcher<__nv_bfloat16, segment_items<__nv_bfloat16>>&,
                                const segment_items<__nv_bfloat16>&, const row_major_operands<__nv_bfloat16>&,
                                std::int64_t, cudaStream_t);

}  // namespace warploom::cuda::row_split
