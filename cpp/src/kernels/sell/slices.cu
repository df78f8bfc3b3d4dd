// A warp works on a slice: its lanes read consecutive places, whatever the height of the slice, so that loads stay
// coalesced with any number of threads for a row.
//
// The common head of the slices needs no offset: its loads are in flight while the offsets of the tail are read, which
// saves small matrices one memory latency.
#include "device/runtime.hpp"
#include "kernels/device/slices.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/sell/device_slices.hpp"
#include "kernels/sell/slices.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

template <class Value>
struct slices_view {
  unsigned num_rows;
  unsigned num_slices;
  unsigned head_places;           // of a slice
  const std::uint32_t* tail_ptr;  // null: no tails
  const std::int32_t* row_ids;    // null: the caller's order
  const std::int32_t* indices;
  const Value* data;
};

template <int Height, int Unroll, class Value>
__global__ void __launch_bounds__(128, 8)
    sell_kernel(const slices_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  const unsigned slice = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (slice >= A.num_slices) return;  // whole warps
  const unsigned lane = threadIdx.x % 32;
  unsigned tail = 0;
  unsigned tail_end = 0;
  if (A.tail_ptr) {
    tail = __ldg(A.tail_ptr + slice);
    tail_end = __ldg(A.tail_ptr + slice + 1);
  }
  const unsigned stored_row = slice * Height + lane % Height;
  const bool stores = lane < Height && stored_row < A.num_rows;
  unsigned row = stored_row;
  if (stores && A.row_ids) row = __ldg(A.row_ids + stored_row);

  cuda::sum_type_t<Value> sum = 0;
  const unsigned head = slice * A.head_places;
  cuda::add_places<Unroll>(sum, head, head + A.head_places, A.indices, A.data, x);
  cuda::add_places<Unroll>(sum, tail, tail_end, A.indices, A.data, x);
  sum = cuda::interleaved_sum<Height>(sum);
  if (stores) y[row] = cuda::narrow<Value>(sum);
}

template <class Value>
class slices_plan final : public spmv_plan {
 public:
  explicit slices_plan(cuda::device_slices slices)
      : slices_(std::move(slices)), num_slices_(static_cast<unsigned>(slices_.num_slices())) {
    if (num_slices_ == 0) return;
    // Few slices are distributed over all multiprocessors; many are taken four to a thread block.
    const auto processors = static_cast<unsigned>(cuda::device_attribute(cudaDevAttrMultiProcessorCount));
    while (warps_per_block_ > 1 && num_slices_ < warps_per_block_ * processors) warps_per_block_ /= 2;
    short_slices_ = slices_.places() / num_slices_ <= 4 * 32;
  }

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (num_slices_ == 0) return;
    cuda::dispatch_constant<32, 16, 8, 4, 2>(static_cast<int>(slices_.height),
                                             [&](auto height) { launch<height>(x, y, stream); });
  }

  std::size_t bytes() const override { return slices_.bytes(); }
  std::vector<value_array> value_arrays() override { return {slices_.all_values()}; }

 private:
  template <int Height>
  void launch(const void* x, void* y, cudaStream_t stream) const {
    if (short_slices_) {
      launch<Height, 4>(static_cast<const Value*>(x), static_cast<Value*>(y), stream);
    } else {
      launch<Height, 8>(static_cast<const Value*>(x), static_cast<Value*>(y), stream);
    }
  }

  template <int Height, int Unroll>
  void launch(const Value* x, Value* y, cudaStream_t stream) const {
    const slices_view<Value> view{static_cast<unsigned>(slices_.num_rows),
                                  num_slices_,
                                  static_cast<unsigned>(slices_.head * slices_.height),
                                  slices_.tail_ptr.data(),
                                  slices_.row_ids.data(),
                                  slices_.indices.data(),
                                  slices_.values<Value>()};
    const unsigned blocks = (num_slices_ + warps_per_block_ - 1) / warps_per_block_;
    sell_kernel<Height, Unroll><<<blocks, 32 * warps_per_block_, 0, stream>>>(view, x, y);
    cuda::check_launch("sell_kernel");
  }

  cuda::device_slices slices_;
  unsigned num_slices_;
  unsigned warps_per_block_ = 4;
  bool short_slices_ = true;  // a warp has few places in flight
};

}  // namespace

std::unique_ptr<product_plan> make_cuda_slices_plan(cuda::device_slices slices) {
  return cuda::dispatch_device_type(slices.dtype, [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<slices_plan<decltype(value)>>(std::move(slices));
  });
}

}  // namespace warploom
