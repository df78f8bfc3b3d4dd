// HYB in one launch. A warp works on a slice of ELL, as in the SELL kernel, and then on the entries that rows of
// the slice have in COO, all lanes on one row at a time. Where a row has more than `segment_length` entries in COO,
// they are cut into segments with warps of their own, which come first because they take longest; the partial sums of
// the segments and of the ELL part of a row are added in a fixed order.
#include <algorithm>
#include <vector>

#include "device/device_csr.hpp"
#include "kernels/coo/cut_rows.hpp"
#include "kernels/description.hpp"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/slices.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/sell/slice_height.hpp"
#include "kernels/sell/slices.hpp"
#include "kernels/spmv_plan.hpp"
#include "warploom/formats/hyb.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;
constexpr std::int64_t segment_length = 512;

// The entries of a row in COO. Loaded with one instruction.
struct overflow_row {
  std::int32_t row;
  std::int32_t begin;
  std::int32_t end;
  std::int32_t cut;  // -1: the warp of the slice adds it; else the number of the cut row
};

// A segment of the entries that a cut row has in COO.
struct overflow_segment {
  std::int32_t begin;
  std::int32_t end;
  std::int32_t cut;
  std::int32_t slot;
};

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
    const overflow_segment piece{p.x, p.y, p.z, p.w};
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
    const overflow_row rest{o.x, o.y, o.z, o.w};
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

// ---- Preparation

struct host_overflow {
  std::vector<std::uint32_t> ptr;
  std::vector<overflow_row> rows;
  std::vector<overflow_segment> pieces;
  std::vector<std::int32_t> cut_row_ids;
  cuda::host_cut_rows cut_rows;
};

// Cuts the entries begin .. end of a row into segments, the first of which is its ELL part; returns its number.
std::int32_t cut_row(host_overflow& overflow, std::int32_t row, std::int64_t begin, std::int64_t end) {
  const std::int32_t cut = overflow.cut_rows.add_row();
  overflow.cut_row_ids.push_back(row);
  overflow.cut_rows.add_segment();
  for (std::int64_t at = begin; at < end; at += segment_length) {
    overflow.pieces.push_back({static_cast<std::int32_t>(at),
                               static_cast<std::int32_t>(std::min(at + segment_length, end)), cut,
                               overflow.cut_rows.add_segment()});
  }
  return cut;
}

host_overflow plan_overflow(const coo_matrix& coo, std::int64_t height) {
  host_overflow overflow;
  if (coo.nnz() == 0) return overflow;
  const std::vector<std::int64_t> offsets = row_offsets(coo);
  for (std::int64_t row = 0; row < coo.num_rows; ++row) {
    if (row % height == 0) overflow.ptr.push_back(static_cast<std::uint32_t>(overflow.rows.size()));
    const std::int64_t begin = offsets[row];
    const std::int64_t end = offsets[row + 1];
    if (begin == end) continue;
    const auto id = static_cast<std::int32_t>(row);
    const std::int32_t cut = end - begin > segment_length ? cut_row(overflow, id, begin, end) : -1;
    overflow.rows.push_back({id, static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end), cut});
  }
  overflow.ptr.push_back(static_cast<std::uint32_t>(overflow.rows.size()));
  return overflow;
}

template <class Element>
cuda::device_array<Element> upload(const std::vector<Element>& host, const device_allocator& allocate) {
  return cuda::upload(host.data(), host.size(), allocate);
}

template <class Value>
class hyb_plan final : public spmv_plan {
 public:
  hyb_plan(const hyb_matrix& matrix, int height, const device_allocator& allocate)
      : hyb_plan(matrix, slices_of(matrix.ell, height), plan_overflow(matrix.coo, height), allocate) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (num_slices_ == 0) return;
    cuda::dispatch_constant<32, 16, 8, 4>(
        height_, [&](auto height) { launch<height>(static_cast<const Value*>(x), static_cast<Value*>(y), stream); });
  }

  std::size_t bytes() const override {
    return ell_indices_.bytes() + ell_data_.bytes() + overflow_ptr_.bytes() + overflow_rows_.bytes() + pieces_.bytes() +
           cut_row_ids_.bytes() + coo_indices_.bytes() + coo_data_.bytes() + cut_rows_.bytes();
  }

 private:
  hyb_plan(const hyb_matrix& matrix, const host_slices& slices, const host_overflow& overflow,
           const device_allocator& allocate)
      : num_rows_(static_cast<unsigned>(matrix.num_rows)),
        num_slices_(static_cast<unsigned>(slices.num_slices())),
        height_(slices.height),
        slice_places_(static_cast<unsigned>(slices.head * slices.height)),
        ell_indices_(upload(slices.indices, allocate)),
        ell_data_(cuda::upload(reinterpret_cast<const Value*>(slices.data.data()), slices.indices.size(), allocate)),
        overflow_ptr_(upload(overflow.ptr, allocate)),
        overflow_rows_(upload(overflow.rows, allocate)),
        pieces_(upload(overflow.pieces, allocate)),
        cut_row_ids_(upload(overflow.cut_row_ids, allocate)),
        coo_indices_(upload(matrix.coo.indices, allocate)),
        coo_data_(cuda::upload(reinterpret_cast<const Value*>(matrix.coo.data.data()), matrix.coo.nnz(), allocate)),
        cut_rows_(overflow.cut_rows, allocate) {}

  template <int Height>
  void launch(const Value* x, Value* y, cudaStream_t stream) const {
    if (slice_places_ <= 4 * 32) return launch<Height, 4>(x, y, stream);
    launch<Height, 8>(x, y, stream);
  }

  template <int Height, int Unroll>
  void launch(const Value* x, Value* y, cudaStream_t stream) const {
    static_assert(sizeof(overflow_row) == sizeof(int4) && sizeof(overflow_segment) == sizeof(int4));
    const hyb_view<Value> view{num_rows_,
                               num_slices_,
                               static_cast<unsigned>(pieces_.size()),
                               slice_places_,
                               ell_indices_.data(),
                               ell_data_.data(),
                               overflow_ptr_.data(),
                               reinterpret_cast<const int4*>(overflow_rows_.data()),
                               reinterpret_cast<const int4*>(pieces_.data()),
                               cut_row_ids_.data(),
                               coo_indices_.data(),
                               coo_data_.data(),
                               cut_rows_.view()};
    constexpr std::size_t warps_per_block = threads_per_block / 32;
    const std::size_t warps = num_slices_ + pieces_.size();
    const auto blocks = static_cast<unsigned>((warps + warps_per_block - 1) / warps_per_block);
    hyb_kernel<Height, Unroll><<<blocks, threads_per_block, 0, stream>>>(view, x, y);
    cuda::check_launch("hyb_kernel");
  }

  unsigned num_rows_;
  unsigned num_slices_;
  int height_;
  unsigned slice_places_;
  cuda::device_array<std::int32_t> ell_indices_;
  cuda::device_array<Value> ell_data_;
  cuda::device_array<std::uint32_t> overflow_ptr_;
  cuda::device_array<overflow_row> overflow_rows_;
  cuda::device_array<overflow_segment> pieces_;
  cuda::device_array<std::int32_t> cut_row_ids_;
  cuda::device_array<std::int32_t> coo_indices_;
  cuda::device_array<Value> coo_data_;
  cuda::device_cut_rows<Value> cut_rows_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_hyb_fused(const device_csr& source, const product_request& request,
                                                          const device_allocator& allocate) {
  const csr_view& matrix = source.host();
  const hyb_matrix stored = to_hyb(matrix, request.parameters.at("width"));
  return cuda::dispatch_device_type(matrix.dtype, [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<hyb_plan<decltype(value)>>(stored, sell_slice_height(request), allocate);
  });
}

}  // namespace warploom
