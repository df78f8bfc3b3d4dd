// SpMM on rows packed into warps, column-major B and C: made for few columns, whose sums a lane holds side by side.
#include <algorithm>
#include <limits>

#include "kernels/description.hpp"
#include "kernels/dispatch_constant.hpp"
#include "kernels/packed_csr/segmented_sum.cuh"

namespace warploom {
namespace {

template <int T, int V, int S, bool Cuts, class Value>
__global__ void __launch_bounds__(packed_warps_per_block * 32)
    packed_csr_segmented_sums_kernel(cuda::packed_view<Value> A, const cuda::packed_operands<Value> operands,
                                     const unsigned tiles) {
  // The thread blocks of the same entries follow each other, so that entries come from the L2 for all tiles but one.
  const unsigned block = blockIdx.x / tiles;
  const unsigned tile = blockIdx.x - block * tiles;
  const int first = static_cast<int>(tile) * T;
  if constexpr (Cuts) {
    A.partial += std::int64_t{first} * A.num_partials;
    A.arrived += std::int64_t{tile} * A.num_partials;
  }
  const cuda::packed_operands<Value> of_tile{operands.x + first * operands.ldx, operands.y + first * operands.ldy,
                                             operands.ldx, operands.ldy, min(T, operands.columns - first)};
  cuda::stored_as_they_are finish;
  cuda::packed_segmented_sum<T, V, S, Cuts>(A, of_tile, block, finish);
}

template <class Value>
class packed_csr_columns_plan final : public product_plan {
 public:
  packed_csr_columns_plan(cuda::device_packed matrix, int tile_width, std::int64_t k, cudaStream_t stream,
                          const device_allocator& allocate)
      : matrix_(std::move(matrix)),
        tile_width_(tile_width),
        tiles_(std::max<std::int64_t>(1, (k + tile_width - 1) / tile_width)),
        partial_(matrix_.num_partials() * tiles_ * tile_width, allocate),
        arrived_(matrix_.num_partials() * tiles_, allocate) {
    fill_device(arrived_.data(), 0, arrived_.bytes(), stream);
  }

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (cuda::packed_warps(matrix_) == 0) return;
    // Partial sums have room for as many columns as the plan was made for, and a grid for so many thread blocks.
    std::int64_t most_tiles = std::numeric_limits<std::int32_t>::max() / blocks();
    if (matrix_.num_partials() > 0) most_tiles = std::min(most_tiles, tiles_);
    const std::int64_t panel = most_tiles * tile_width_;
    for (std::int64_t first = 0; first < C.num_cols; first += panel) {
      const cuda::packed_operands<Value> operands{static_cast<const Value*>(B.data) + first * B.leading_dimension,
                                                  static_cast<Value*>(C.data) + first * C.leading_dimension,
                                                  B.leading_dimension, C.leading_dimension,
                                                  static_cast<int>(std::min(panel, C.num_cols - first))};
      cuda::dispatch_constant<1, 2, 4>(tile_width_, [&](auto width) { launch<width>(operands, stream); });
    }
  }

  std::size_t bytes() const override { return matrix_.bytes() + partial_.bytes() + arrived_.bytes(); }
  std::vector<value_array> value_arrays() override { return {matrix_.all_values()}; }

 private:
  bool cuts() const { return matrix_.num_pieces() > 0; }
  unsigned warps_per_block() const { return cuda::packed_block_warps(cuts(), cuda::packed_warps(matrix_)); }
  std::int64_t blocks() const {
    return static_cast<std::int64_t>((cuda::packed_warps(matrix_) + warps_per_block() - 1) / warps_per_block());
  }

  template <int T>
  void launch(const cuda::packed_operands<Value>& operands, cudaStream_t stream) const {
    cuda::dispatch_constant<1, 2, 4>(matrix_.entries_per_lane(), [&](auto entries) {
      cuda::dispatch_constant<1, 2>(matrix_.steps(), [&](auto steps) {
        if (cuts()) {
          launch<T, entries, steps, true>(operands, stream);
        } else {
          launch<T, entries, steps, false>(operands, stream);
        }
      });
    });
  }

  template <int T, int V, int S, bool Cuts>
  void launch(const cuda::packed_operands<Value>& operands, cudaStream_t stream) const {
    const auto tiles = static_cast<unsigned>((operands.columns + T - 1) / T);
    packed_csr_segmented_sums_kernel<T, V, S, Cuts>
        <<<static_cast<unsigned>(blocks()) * tiles, warps_per_block() * 32, 0, stream>>>(
            cuda::view_packed<Value>(matrix_, partial_.data(), arrived_.data()), operands, tiles);
    cuda::check_launch("packed_csr_segmented_sums_kernel");
  }

  cuda::device_packed matrix_;
  int tile_width_;
  std::int64_t tiles_;
  cuda::device_array<cuda::sum_type_t<Value>> partial_;
  cuda::device_array<unsigned> arrived_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmm_packed_csr_segmented_sum(const device_csr& matrix,
                                                                         const product_request& request,
                                                                         const device_allocator& allocate) {
  cuda::device_packed packed(matrix, request.row_ids.get(), request.parameters.at("entries_per_lane"),
                             request.parameters.at("steps"), allocate);
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return std::make_unique<packed_csr_columns_plan<decltype(value)>>(
        std::move(packed), request.parameters.at("tile_width"), request.k, matrix.stream(), allocate);
  });
}

}  // namespace warploom
