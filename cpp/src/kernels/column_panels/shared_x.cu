// SpMV through column panels with x in shared memory: where a product is limited by fetching a cache sector of x for
// every nonzero, each SM reads its panels of x once instead.
#include <algorithm>
#include <utility>

#include "device/device_csr.hpp"
#include "kernels/column_panels/device_column_panels.hpp"
#include "kernels/column_panels/panel_size.hpp"
#include "kernels/column_panels/shared_x.cuh"
#include "kernels/column_panels/work.hpp"
#include "kernels/description.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

static_assert(cuda::sum_panels_warps == cuda::panel_warps);
static_assert(sizeof(cuda::panel_part) == sizeof(int4));

template <class T>
cuda::device_array<T> upload_all(const std::vector<T>& values, const device_allocator& allocate, cudaStream_t stream) {
  return cuda::upload(values.data(), values.size(), allocate, stream);
}

// The number of columns of a panel that fits into the shared memory of a thread block of this device.
template <class Value>
std::int32_t columns_for_device(const device_csr& matrix, const product_request& request) {
  const cuda::panels_view<Value> no_columns{.num_cols = 0, .panel_columns = 0};
  const std::int64_t most = cuda::device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return panel_columns(matrix.num_cols(), matrix.dtype(),
                       std::min(requested_panel_bytes(request), most - no_columns.shared_bytes()));
}

template <class Value>
using sum_panels_function = void (*)(cuda::panels_view<Value>, const Value*);

// The kernel with as many registers as the thread blocks that fit into the shared memory of an SM leave each of them.
template <class Value>
sum_panels_function<Value> choose_kernel(int panel_columns) {
  const cuda::panels_view<Value> view{.num_cols = 0, .panel_columns = panel_columns};
  const int per_block =
      static_cast<int>(view.shared_bytes()) + cuda::device_attribute(cudaDevAttrReservedSharedMemoryPerBlock);
  const int per_sm = cuda::device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  return 2 * per_block <= per_sm ? cuda::sum_panels_kernel<Value, 2> : cuda::sum_panels_kernel<Value, 1>;
}

// How the tiles of a matrix are distributed over the thread blocks of a device, all of them resident at once.
template <class Value>
cuda::panel_shares distribute_over_blocks(const cuda::device_column_panels& matrix, sum_panels_function<Value> kernel) {
  // For the widest panel: other plans use the same kernel with other panels.
  const int most = cuda::device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  WARPLOOM_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  WARPLOOM_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  const cuda::panels_view<Value> view{.num_cols = 0, .panel_columns = matrix.panel_columns()};
  int blocks = 0;
  WARPLOOM_CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, cuda::sum_panels_threads, view.shared_bytes()));
  return cuda::distribute_panels(matrix.panel_ptr(), matrix.dtype(), matrix.panel_columns(),
                                 std::max(1, blocks) * cuda::device_attribute(cudaDevAttrMultiProcessorCount));
}

template <class Value>
class shared_x_plan final : public spmv_plan {
 public:
  // Row r of the matrix is row row_ids[r] of y; without `row_ids`, row r.
  shared_x_plan(cuda::device_column_panels&& panels, device_permutation row_ids, const device_allocator& allocate)
      : shared_x_plan(std::move(panels), choose_kernel<Value>(panels.panel_columns()), std::move(row_ids), allocate) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (panels_.num_rows() == 0) return;
    if (num_shares_ > 0) sum_panels(static_cast<const Value*>(x), stream);
    add_panels(static_cast<Value*>(y), stream);
  }

  std::size_t bytes() const override {
    const std::size_t row_ids = row_ids_ ? panels_.num_rows() * sizeof(std::int32_t) : 0;
    return row_ids + panels_.bytes() + work_.bytes() + share_parts_.bytes() + parts_.bytes() + sums_.bytes() +
           carries_.bytes();
  }
  std::vector<value_array> value_arrays() override { return {panels_.all_values()}; }

 private:
  using sum_type = cuda::sum_type_t<Value>;

  using kernel_type = sum_panels_function<Value>;

  shared_x_plan(cuda::device_column_panels&& panels, kernel_type kernel, device_permutation row_ids,
                const device_allocator& allocate)
      : shared_x_plan(std::move(panels), kernel, distribute_over_blocks(panels, kernel), std::move(row_ids), allocate) {
  }

  shared_x_plan(cuda::device_column_panels&& panels, kernel_type kernel, const cuda::panel_shares& shares,
                device_permutation row_ids, const device_allocator& allocate)
      : kernel_(kernel),
        panels_(std::move(panels)),
        row_ids_(std::move(row_ids)),
        num_shares_(static_cast<unsigned>(shares.size())),
        share_parts_(upload_all(shares.share_parts, allocate, panels_.stream())),
        parts_(upload_all(shares.parts, allocate, panels_.stream())),
        work_(panels_.plan_work(parts_, allocate)),
        sums_(panels_.num_sums(), allocate),
        carries_(work_.first_sums.size(), allocate),
        overlaps_launches_(cuda::device_attribute(cudaDevAttrComputeCapabilityMajor) >= 9) {}

  void sum_panels(const Value* x, cudaStream_t stream) const {
    const cuda::panels_view<Value> view{.num_cols = static_cast<std::int32_t>(panels_.num_cols()),
                                        .panel_columns = panels_.panel_columns(),
                                        .share_parts = share_parts_.data(),
                                        .parts = reinterpret_cast<const int4*>(parts_.data()),
                                        .first_sums = work_.first_sums.data(),
                                        .columns = reinterpret_cast<const uint4*>(panels_.columns()),
                                        .lanes = panels_.lanes(),
                                        .values = reinterpret_cast<const uint4*>(panels_.values()),
                                        .sums = sums_.data(),
                                        .carries = carries_.data()};
    kernel_<<<num_shares_, cuda::sum_panels_threads, view.shared_bytes(), stream>>>(view, x);
    cuda::check_launch("sum_panels_kernel");
  }

  void add_panels(Value* y, cudaStream_t stream) const {
    const auto row_blocks = static_cast<std::int32_t>(panels_.num_row_blocks());
    const cuda::panel_sums_view<Value> view{.num_rows = static_cast<std::int32_t>(panels_.num_rows()),
                                            .num_row_blocks = row_blocks,
                                            .num_panels = static_cast<std::int32_t>(panels_.num_panels()),
                                            .row_blocks = panels_.row_blocks(),
                                            .block_cuts = work_.block_cuts.data(),
                                            .cut_rows = work_.cut_rows.data(),
                                            .cut_ptr = work_.cut_ptr.data(),
                                            .cut_chunks = work_.cut_chunks.data(),
                                            .row_ids = row_ids_.get(),
                                            .sums = sums_.data(),
                                            .carries = carries_.data()};
    constexpr unsigned warps = cuda::add_panels_threads / 32;
    const dim3 blocks((static_cast<unsigned>(row_blocks) + warps - 1) / warps);
    cuda::launch_second(cuda::add_panels_kernel<Value>, blocks, cuda::add_panels_threads, stream,
                        overlaps_launches_ && num_shares_ > 0, view, y);
  }

  kernel_type kernel_;
  cuda::device_column_panels panels_;
  device_permutation row_ids_;
  unsigned num_shares_;
  cuda::device_array<std::int32_t> share_parts_;
  cuda::device_array<cuda::panel_part> parts_;
  cuda::device_panel_work work_;
  cuda::device_array<sum_type> sums_;
  cuda::device_array<sum_type> carries_;
  bool overlaps_launches_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_column_panels_shared_x(const device_csr& matrix,
                                                                       const product_request& request,
                                                                       const device_allocator& allocate) {
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    using device_value = decltype(value);
    const std::int32_t columns = columns_for_device<device_value>(matrix, request);
    return std::make_unique<shared_x_plan<device_value>>(
        cuda::device_column_panels(matrix, columns, cuda::column_numbers::in_bank_order, allocate), request.row_ids,
        allocate);
  });
}

}  // namespace warploom
