// SpMV on rows packed into warps. All entries of a warp are loaded at once, from addresses that are known without a
// load; the lanes of a row are summed by a segmented scan, so that rows of any lengths share a warp. Two dependent
// memory accesses (entries, x) precede the sums, as for padded rows, and no lane waits for a longer row.
#include "kernels/description.hpp"
#include "kernels/device/finish.cuh"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/finishing.hpp"
#include "kernels/packed_csr/device_packed.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

template <class Value>
struct packed_view {
  using sum_type = cuda::sum_type_t<Value>;
  unsigned num_warps;
  unsigned num_empty_rows;
  const std::uint32_t* lanes;
  const std::int32_t* indices;
  const Value* data;
  const int4* pieces;  // packed_segment
  const std::int32_t* empty_rows;
  sum_type* partial;
  unsigned* arrived;  // [partials]: the first one of each row counts; zero between runs
};

// V consecutive elements at once.
template <int V, class T>
__device__ __forceinline__ cuda::vector<T, V> load_entries(const T* from) {
  constexpr int bytes = sizeof(T) * V;
  cuda::vector<T, V> result;
  if constexpr (bytes == 2) {
    *reinterpret_cast<unsigned short*>(&result) = __ldg(reinterpret_cast<const unsigned short*>(from));
  } else if constexpr (bytes <= 16) {
    result = cuda::load<T, V>(from);
  } else {
    constexpr int half = V / 2;
    const auto low = cuda::load<T, half>(from);
    const auto high = cuda::load<T, half>(from + half);
#pragma unroll
    for (int i = 0; i < half; ++i) {
      result.lane[i] = low.lane[i];
      result.lane[half + i] = high.lane[i];
    }
  }
  return result;
}

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

// Stores one thread block's partial sum of a row of several thread blocks; the warp that finishes last adds them all,
// always in the same order. Called by whole warps.
template <class Value, class Finish>
__device__ void finish_block(const packed_view<Value>& A, const int4& piece, cuda::sum_type_t<Value> sum, Value* y,
                             Finish& finish) {
  const int first = piece.y, count = piece.z;
  const auto own = static_cast<int>(static_cast<unsigned>(piece.w) >> 8);
  if (!cuda::warp_arrives_last<4>(A.partial + first, own, count, A.arrived + first, sum)) return;
  const cuda::sum_type_t<Value> total = cuda::group_sum<32>(sum);
  if (cuda::lane_id() == 0) finish.store(y, piece.x, total);
}

template <int V, int S, bool Cuts, class Value, class Finish>
__global__ void __launch_bounds__(packed_warps_per_block * 32)
    packed_csr_segmented_sum_kernel(const packed_view<Value> A, const Value* __restrict__ x, Value* __restrict__ y,
                                    Finish finish) {
  static_assert(!Cuts || !Finish::has_end, "rows that are cut are stored in several places, after which threads leave");
  using sum_type = cuda::sum_type_t<Value>;
  const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  __shared__ sum_type segment_sums[Cuts ? packed_warps_per_block : 1];
  int4 piece{};
  bool holds_segment = false;
  if (warp >= A.num_warps) {
    const unsigned i = (warp - A.num_warps) * 32 + lane;
    if (i < A.num_empty_rows) finish.store(y, A.empty_rows[i], sum_type(0));
  } else {
    const std::size_t first = std::size_t{warp} * (32 * S) + lane;
    std::uint32_t meaning[S];
    cuda::vector<std::int32_t, V> columns[S];
    cuda::vector<Value, V> values[S];
#pragma unroll
    for (int s = 0; s < S; ++s) columns[s] = load_entries<V>(A.indices + (first + 32 * s) * V);
#pragma unroll
    for (int s = 0; s < S; ++s) values[s] = load_entries<V>(A.data + (first + 32 * s) * V);
#pragma unroll
    for (int s = 0; s < S; ++s) meaning[s] = __ldg(A.lanes + first + 32 * s);
    cuda::keep_load_order();
    Value x_values[S][V];
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const std::int32_t column = columns[s].lane[v];
        x_values[s][v] = column >= 0 ? cuda::read_only(x + column) : Value(0);  // a place without an entry adds 0 * 0
      }
    }
    if constexpr (Cuts) {  // a segment begins its warp
      const std::uint32_t begins_with = cuda::from_lane(meaning[0], 0);
      holds_segment = (begins_with & packed_cut) != 0;
      if (holds_segment) piece = __ldg(A.pieces + (begins_with & packed_target));
    }

    sum_type sums[S];
#pragma unroll
    for (int s = 0; s < S; ++s) {
      sums[s] = 0;
#pragma unroll
      for (int v = 0; v < V; ++v) sums[s] += cuda::widen(values[s].lane[v]) * cuda::widen(x_values[s][v]);
    }
    unsigned heads[S];
#pragma unroll
    for (int s = 0; s < S; ++s) heads[s] = cuda::ballot((meaning[s] & packed_head) != 0);

    sum_type carried = 0;  // of the row that continues from the step before
#pragma unroll
    for (int s = 0; s < S; ++s) {
      if (lane == 0 && !(heads[s] & 1u)) sums[s] += carried;
      const sum_type sum = cuda::segmented_scan(sums[s], heads[s]);
      if (s + 1 < S) carried = cuda::from_lane(sum, 31);
      const bool last_lane_ends = s + 1 == S || (heads[s + 1 < S ? s + 1 : s] & 1u);
      const unsigned ends = heads[s] >> 1 | (last_lane_ends ? 0x80000000u : 0u);
      const std::uint32_t target = meaning[s] & packed_target;
      if ((ends >> lane & 1u) != 0 && target != packed_target) {
        if (Cuts && (meaning[s] & packed_cut)) {
          segment_sums[threadIdx.x / 32] = sum;
        } else {
          finish.store(y, target, sum);
        }
      }
    }
  }
  if constexpr (Cuts) {
    __syncthreads();
    const unsigned place = static_cast<unsigned>(piece.w);
    if (!holds_segment || !(place & 1u)) return;
    sum_type total = 0;
    for (unsigned w = place >> 4 & 15u; w <= threadIdx.x / 32; ++w) total += segment_sums[w];
    if (piece.z > 1) {
      finish_block(A, piece, total, y, finish);
    } else if (lane == 0) {
      finish.store(y, piece.x, total);
    }
  }
  finish.end();
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
  std::size_t warps() const { return matrix_.num_warps() + (matrix_.num_empty_rows() + 31) / 32; }
  // Small thread blocks distribute few warps over all multiprocessors; the segments of a row need full thread blocks.
  unsigned warps_per_block() const { return cuts() || warps() > 1024 ? packed_warps_per_block : 4; }
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
    const packed_view<Value> A{static_cast<unsigned>(matrix_.num_warps()),
                               static_cast<unsigned>(matrix_.num_empty_rows()),
                               matrix_.lanes(),
                               matrix_.indices(),
                               matrix_.values<Value>(),
                               reinterpret_cast<const int4*>(matrix_.pieces()),
                               matrix_.empty_rows(),
                               partial_.data(),
                               arrived_.data()};
    packed_csr_segmented_sum_kernel<V, S, Cuts><<<blocks(), warps_per_block() * 32, 0, stream>>>(
        A, static_cast<const Value*>(x), static_cast<Value*>(y), finish);
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
