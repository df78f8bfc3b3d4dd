// HYB in one launch. A warp works on a slice of ELL, as in the SELL kernel, and then on the entries that rows of
// the slice have in COO, all lanes on one row at a time. Where a row has more than `hyb_segment_length` entries in COO,
// they are cut into segments with warps of their own, which come first because they take longest; the partial sums of
// the segments and of the ELL part of a row are added in a fixed order.
#include "device/cuda_function.hpp"
#include "kernels/coo/cut_rows.hpp"
#include "kernels/description.hpp"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/slices.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/hyb/device_hyb.hpp"
#include "kernels/hyb/width.hpp"
#include "kernels/sell/slice_height.hpp"
#include "kernels/spmv_plan.hpp"
#include "warploom/formats/format.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;

template <class Value>
struct hyb_view {
  unsigned num_rows;
  unsigned num_slices;
  unsigned num_segments;
  unsigned slice_places;
  const std::int32_t* ell_indices;
  const Value* ell_data;
  const std::uint32_t* overflow_ptr;  // [number of slices + 1] into overflow_rows; null: there are none
  const int4* overflow_rows;          // overflow_row
  const int4* pieces;                 // overflow_segment
  const std::int32_t* cut_row_ids;    // the row of y of each cut row
  const std::int32_t* coo_indices;
  const Value* coo_data;
  cuda::cut_rows_view<Value> cut_rows;
};

// The entries begin .. end of COO times x, the same in every lane.
template <class Value>
__device__ __forceinline__ cuda::sum_type_t<Value> sum_of_entries(const hyb_view<Value>& A, int begin, int end,
                                                                  const Value* x) {
  cuda::sum_type_t<Value> sum = 0;
  cuda::add_places<4>(sum, begin, end, A.coo_indices, A.coo_data, x);
  return cuda::interleaved_sum<1>(sum);
}

template <int Height, int Unroll, class Value>
__global__ void __launch_bounds__(threads_per_block, 8)
    hyb_kernel(const hyb_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y) {
  const unsigned warp = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (warp < A.num_segments) {
    const int4 p = __ldg(A.pieces + warp);
    const cuda::overflow_segment piece{p.x, p.y, p.z, p.w};
    const auto sum = sum_of_entries(A, piece.begin, piece.end, x);
    cuda::add_segment<Value>(A.cut_rows, piece.cut, piece.slot, sum, y + A.cut_row_ids[piece.cut]);
    return;
  }
  const unsigned slice = warp - A.num_segments;
  if (slice >= A.num_slices) return;  // whole warps
  unsigned overflow = 0;
  unsigned overflow_end = 0;
  if (A.overflow_ptr) {
    overflow = __ldg(A.overflow_ptr + slice);
    overflow_end = __ldg(A.overflow_ptr + slice + 1);
  }
  const unsigned row = slice * Height + lane % Height;
  bool stores = lane < Height && row < A.num_rows;

  cuda::sum_type_t<Value> sum = 0;
  const unsigned begin = slice * A.slice_places;
  cuda::add_places<Unroll>(sum, begin, begin + A.slice_places, A.ell_indices, A.ell_data, x);
  sum = cuda::interleaved_sum<Height>(sum);
  for (; overflow < overflow_end; ++overflow) {
    const int4 o = __ldg(A.overflow_rows + overflow);
    const cuda::overflow_row rest{o.x, o.y, o.z, o.w};
    const bool mine = row == static_cast<unsigned>(rest.row);
    if (rest.cut < 0) {
      const auto more = sum_of_entries(A, rest.begin, rest.end, x);
      if (mine) sum += more;
    } else {  // the ELL part is the first segment of the row
      const auto part = cuda::from_lane(sum, rest.row - slice * Height);
      cuda::add_segment<Value>(A.cut_rows, rest.cut, A.cut_rows.rows[rest.cut].first, part, y + rest.row);
      if (mine) stores = false;
    }
  }
  if (stores) y[row] = cuda::narrow<Value>(sum);
}

template <class Value>
class hyb_plan final : public spmv_plan {
 public:
  hyb_plan(cuda::device_hyb matrix, const device_allocator& allocate, cudaStream_t stream)
      : matrix_(std::move(matrix)),
        num_slices_(static_cast<unsigned>(matrix_.ell().num_slices())),
        cut_rows_(matrix_.cut_rows(), matrix_.num_slots(), allocate, stream) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (num_slices_ == 0) return;
    cuda::dispatch_constant<32, 16, 8, 4>(static_cast<int>(matrix_.ell().height), [&](auto height) {
      launch<height>(static_cast<const Value*>(x), static_cast<Value*>(y), stream);
    });
  }

  std::size_t bytes() const override {
    return matrix_.bytes() + cut_rows_.bytes() - matrix_.cut_rows().bytes();  // which both have
  }
  std::vector<value_array> value_arrays() override { return {matrix_.ell().all_values(), matrix_.coo_part_values()}; }

 private:
  unsigned slice_places() const { return static_cast<unsigned>(matrix_.ell().head * matrix_.ell().height); }

  template <int Height>
  void launch(const Value* x, Value* y, cudaStream_t stream) const {
    if (slice_places() <= 4 * 32) return launch<Height, 4>(x, y, stream);
    launch<Height, 8>(x, y, stream);
  }

  template <int Height, int Unroll>
  void launch(const Value* x, Value* y, cudaStream_t stream) const {
    const cuda::device_slices& ell = matrix_.ell();
    const hyb_view<Value> view{static_cast<unsigned>(ell.num_rows),
                               num_slices_,
                               static_cast<unsigned>(matrix_.num_pieces()),
                               slice_places(),
                               ell.indices.data(),
                               ell.values<Value>(),
                               matrix_.overflow_ptr(),
                               reinterpret_cast<const int4*>(matrix_.overflow_rows()),
                               reinterpret_cast<const int4*>(matrix_.pieces()),
                               matrix_.cut_row_ids(),
                               matrix_.coo_indices(),
                               matrix_.coo_values<Value>(),
                               cut_rows_.view()};
    constexpr std::size_t warps_per_block = threads_per_block / 32;
    const std::size_t warps = num_slices_ + matrix_.num_pieces();
    const auto blocks = static_cast<unsigned>((warps + warps_per_block - 1) / warps_per_block);
    hyb_kernel<Height, Unroll><<<blocks, threads_per_block, 0, stream>>>(view, x, y);
    cuda::check_launch("hyb_kernel");
  }

  cuda::device_hyb matrix_;
  unsigned num_slices_;
  cuda::device_cut_rows<Value> cut_rows_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_hyb_fused(const device_csr& matrix, const product_request& request,
                                                          const device_allocator& allocate) {
  const auto check_width = [&](std::int64_t width) {
    refuse_candidate("hyb/fused", hyb_places_reason(width, matrix.num_rows(), matrix.nnz()));
  };
  if (matrix.wide()) check_width(0);  // too many entries, whatever the width
  cuda::device_hyb stored(matrix, request.parameters.at("width"), sell_slice_height(request), check_width, allocate);
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<hyb_plan<decltype(value)>>(std::move(stored), allocate, matrix.stream());
  });
}

convert_on_gpu_function hyb_from_csr_on_gpu;

std::unique_ptr<stored_matrix> hyb_from_csr_on_gpu(const device_csr& matrix, const option_values& options) {
  const cuda::device_hyb made(
      matrix, options.integer<std::int64_t>("width"), 32, [](std::int64_t) {}, allocate_device_memory);
  return stored(made.download());
}

}  // namespace warploom
