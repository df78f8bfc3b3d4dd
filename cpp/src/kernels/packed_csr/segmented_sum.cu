// SpMV on rows packed into warps.
#include "kernels/description.hpp"
#include "kernels/dispatch_constant.hpp"
#include "kernels/finishing.hpp"
#include "kernels/packed_csr/segmented_sum.cuh"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

// An epilogue without a dot product, for rows that are cut: nothing is left to do after the last store.
template <class Value>
struct finished_rows {
  static constexpr bool has_end = false;

  cuda::finishing_values<Value> by;

  __device__ __forceinline__ void store(Value* y, std::int64_t row, cuda::sum_type_t<Value> sum) {
    y[row] = cuda::narrow<Value>(by(sum, y + row, row));
  }
  __device__ __forceinline__ void end() {}
};

template <int V, int S, bool Cuts, class Value, class Finish>
__global__ void __launch_bounds__(packed_warps_per_block * 32)
    packed_csr_segmented_sum_kernel(const cuda::packed_view<Value> A, const Value* __restrict__ x,
                                    Value* __restrict__ y, Finish finish) {
  cuda::packed_segmented_sum<1, V, S, Cuts>(A, cuda::packed_operands<Value>{x, y, 0, 0, 1}, blockIdx.x, finish);
}

template <class Value>
class packed_csr_plan final : public spmv_plan, public finishing_plan {
 public:
  packed_csr_plan(cuda::device_packed matrix, cudaStream_t stream, const device_allocator& allocate)
      : matrix_(std::move(matrix)),
        partial_(matrix_.num_partials(), allocate),
        arrived_(matrix_.num_partials(), allocate) {
    fill_device(arrived_.data(), 0, arrived_.bytes(), stream);
  }

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (cuts()) {
      launch<true>(x, y, cuda::stored_as_they_are{}, stream);
    } else {
      launch<false>(x, y, cuda::stored_as_they_are{}, stream);
    }
  }

  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (!cuda::is_finished_by_rows(by)) return false;
    const cuda::finishing_values<Value> values(by);
    if (cuts()) {
      launch<true>(B.data, C.data, finished_rows<Value>{values}, stream);
    } else {
      launch<false>(B.data, C.data, cuda::finished<Value>{values, nullptr, {}}, stream);
    }
    return true;
  }

  bool run_with_dot(const dense_view& x, const dense_view& y, void* dot, CUstream_st* stream) override {
    if (cuts() || x.num_rows == 0 || !sums_.reserve(blocks(), stream)) return false;
    const auto* const from = static_cast<const Value*>(x.data);
    launch<false>(x.data, y.data,
                  cuda::finished<Value>{cuda::finishing_values<Value>({}), from,
                                        sums_.template view<cuda::sum_type_t<Value>>(dot)},
                  stream);
    return true;
  }

  std::size_t bytes() const override { return matrix_.bytes() + partial_.bytes() + arrived_.bytes() + sums_.bytes(); }
  std::vector<value_array> value_arrays() override { return {matrix_.all_values()}; }

 private:
  bool cuts() const { return matrix_.num_pieces() > 0; }
  std::size_t warps() const { return cuda::packed_warps(matrix_); }
  unsigned warps_per_block() const { return cuda::packed_block_warps(cuts(), warps()); }
  unsigned blocks() const { return static_cast<unsigned>((warps() + warps_per_block() - 1) / warps_per_block()); }

  template <bool Cuts, class Finish>
  void launch(const void* x, void* y, const Finish& finish, cudaStream_t stream) const {
    cuda::dispatch_constant<1, 2, 4>(matrix_.entries_per_lane(), [&](auto entries) {
      cuda::dispatch_constant<1, 2, 4>(matrix_.steps(),
                                       [&](auto steps) { launch<entries, steps, Cuts>(x, y, finish, stream); });
    });
  }

  template <int V, int S, bool Cuts, class Finish>
  void launch(const void* x, void* y, const Finish& finish, cudaStream_t stream) const {
    if (warps() == 0) return;
    packed_csr_segmented_sum_kernel<V, S, Cuts><<<blocks(), warps_per_block() * 32, 0, stream>>>(
        cuda::view_packed<Value>(matrix_, partial_.data(), arrived_.data()), static_cast<const Value*>(x),
        static_cast<Value*>(y), finish);
    cuda::check_launch("packed_csr_segmented_sum_kernel");
  }

  cuda::device_packed matrix_;
  cuda::device_array<cuda::sum_type_t<Value>> partial_;
  cuda::device_array<unsigned> arrived_;
  cuda::grid_sum_workspace sums_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_packed_csr_segmented_sum(const device_csr& matrix,
                                                                         const product_request& request,
                                                                         const device_allocator& allocate) {
  cuda::device_packed packed(matrix, request.row_ids.get(), request.parameters.at("entries_per_lane"),
                             request.parameters.at("steps"), allocate);
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<packed_csr_plan<decltype(value)>>(std::move(packed), matrix.stream(), allocate);
  });
}

}  // namespace warploom
