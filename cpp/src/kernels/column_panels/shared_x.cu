// SpMV through column panels with x in shared memory: where a product is limited by fetching a cache sector of x for
// every nonzero, each SM reads its panels of x once instead.
#include <algorithm>
#include <utility>

#include "device/device_csr.hpp"
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
cuda::device_array<T> upload_all(const std::vector<T>& values, const device_allocator& allocate) {
  return cuda::upload(values.data(), values.size(), allocate);
}

// The number of columns of a panel that fits into the shared memory of a thread block of this device.
template <class Value>
std::int32_t columns_for_device(const csr_view& matrix, const product_request& request) {
  const cuda::panels_view<Value> no_columns{.num_cols = 0, .panel_columns = 0};
  const std::int64_t most = cuda::device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return panel_columns(matrix.num_cols, matrix.dtype,
                       std::min(requested_panel_bytes(request), most - no_columns.shared_bytes()));
}

template <class Value>
using sum_panels_function = void (*)(cuda::panels_view<Value>, const Value*);

// The kernel with as many registers as the thread blocks that fit into the shared memory of an SM leave each of them.
template <class Value>
sum_panels_function<Value> choose_kernel(const column_panels_matrix& matrix) {
  const cuda::panels_view<Value> view{.num_cols = 0, .panel_columns = matrix.panel_columns};
  const int per_block =
      static_cast<int>(view.shared_bytes()) + cuda::device_attribute(cudaDevAttrReservedSharedMemoryPerBlock);
  const int per_sm = cuda::device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  return 2 * per_block <= per_sm ? cuda::sum_panels_kernel<Value, 2> : cuda::sum_panels_kernel<Value, 1>;
}

// How the tiles of a matrix are distributed over the thread blocks of a device, all of them resident at once.
template <class Value>
cuda::panel_shares distribute_over_blocks(const column_panels_matrix& matrix, sum_panels_function<Value> kernel) {
  // For the widest panel: other plans use the same kernel with other panels.
  const int most = cuda::device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  WARPLOOM_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  WARPLOOM_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  const cuda::panels_view<Value> view{.num_cols = 0, .panel_columns = matrix.panel_columns};
  int blocks = 0;
  WARPLOOM_CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, cuda::sum_panels_threads, view.shared_bytes()));
  return cuda::distribute_panels(matrix, std::max(1, blocks) * cuda::device_attribute(cudaDevAttrMultiProcessorCount));
}

// Number of the first sum and mask of every (row block, panel), as the GPU reads them.
std::vector<int2> pair_row_blocks(const column_panels_matrix& matrix) {
  std::vector<int2> pairs(matrix.row_masks.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = {matrix.first_sums[i], static_cast<int>(matrix.row_masks[i])};
  }
  return pairs;
}

template <class Value>
class shared_x_plan final : public spmv_plan {
 public:
  shared_x_plan(const column_panels_matrix& matrix, const device_allocator& allocate)
      : shared_x_plan(matrix, choose_kernel<Value>(matrix), allocate) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (num_rows_ == 0) return;
    if (num_shares_ > 0) sum_panels(static_cast<const Value*>(x), stream);
    add_panels(static_cast<Value*>(y), stream);
  }

  std::size_t bytes() const override {
    return share_parts_.bytes() + parts_.bytes() + first_sums_.bytes() + columns_.bytes() + lanes_.bytes() +
           values_.bytes() + sums_.bytes() + carries_.bytes() + row_blocks_.bytes() + block_cuts_.bytes() +
           cut_rows_.bytes() + cut_ptr_.bytes() + cut_chunks_.bytes();
  }

 private:
  using sum_type = cuda::sum_type_t<Value>;

  using kernel_type = sum_panels_function<Value>;

  shared_x_plan(const column_panels_matrix& matrix, kernel_type kernel, const device_allocator& allocate)
      : shared_x_plan(matrix, kernel, distribute_over_blocks(matrix, kernel), allocate) {}

  shared_x_plan(const column_panels_matrix& matrix, kernel_type kernel, const cuda::panel_shares& shares,
                const device_allocator& allocate)
      : shared_x_plan(matrix, kernel, shares, cuda::plan_panel_work(matrix, shares), allocate) {}

  shared_x_plan(const column_panels_matrix& matrix, kernel_type kernel, const cuda::panel_shares& shares,
                const cuda::panel_work& work, const device_allocator& allocate)
      : kernel_(kernel),
        num_rows_(static_cast<std::int32_t>(matrix.num_rows)),
        num_cols_(static_cast<std::int32_t>(matrix.num_cols)),
        num_panels_(static_cast<std::int32_t>(matrix.num_panels())),
        panel_columns_(matrix.panel_columns),
        num_shares_(static_cast<unsigned>(shares.size())),
        share_parts_(upload_all(shares.share_parts, allocate)),
        parts_(upload_all(shares.parts, allocate)),
        first_sums_(upload_all(work.first_sums, allocate)),
        columns_(upload_all(matrix.columns, allocate)),
        lanes_(upload_all(work.lanes, allocate)),
        values_(upload_all(cuda::interleave_values(matrix), allocate)),
        sums_(matrix.num_sums, allocate),
        carries_(work.first_sums.size(), allocate),
        row_blocks_(upload_all(pair_row_blocks(matrix), allocate)),
        block_cuts_(upload_all(work.cuts.blocks, allocate)),
        cut_rows_(upload_all(work.cuts.rows, allocate)),
        cut_ptr_(upload_all(work.cuts.ptr, allocate)),
        cut_chunks_(upload_all(work.cuts.chunks, allocate)),
        overlaps_launches_(cuda::device_attribute(cudaDevAttrComputeCapabilityMajor) >= 9) {}

  void sum_panels(const Value* x, cudaStream_t stream) const {
    const cuda::panels_view<Value> view{.num_cols = num_cols_,
                                        .panel_columns = panel_columns_,
                                        .share_parts = share_parts_.data(),
                                        .parts = reinterpret_cast<const int4*>(parts_.data()),
                                        .first_sums = first_sums_.data(),
                                        .columns = reinterpret_cast<const uint4*>(columns_.data()),
                                        .lanes = lanes_.data(),
                                        .values = reinterpret_cast<const uint4*>(values_.data()),
                                        .sums = sums_.data(),
                                        .carries = carries_.data()};
    kernel_<<<num_shares_, cuda::sum_panels_threads, view.shared_bytes(), stream>>>(view, x);
    cuda::check_launch("sum_panels_kernel");
  }

  void add_panels(Value* y, cudaStream_t stream) const {
    const auto row_blocks = static_cast<std::int32_t>(block_cuts_.size() - 1);
    const cuda::panel_sums_view<Value> view{.num_rows = num_rows_,
                                            .num_row_blocks = row_blocks,
                                            .num_panels = num_panels_,
                                            .row_blocks = row_blocks_.data(),
                                            .block_cuts = block_cuts_.data(),
                                            .cut_rows = cut_rows_.data(),
                                            .cut_ptr = cut_ptr_.data(),
                                            .cut_chunks = cut_chunks_.data(),
                                            .sums = sums_.data(),
                                            .carries = carries_.data()};
    constexpr unsigned warps = cuda::add_panels_threads / 32;
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3((static_cast<unsigned>(row_blocks) + warps - 1) / warps);
    config.blockDim = dim3(cuda::add_panels_threads);
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = overlaps_launches_ && num_shares_ > 0 ? 1 : 0;
    WARPLOOM_CUDA_CHECK(cudaLaunchKernelEx(&config, cuda::add_panels_kernel<Value>, view, y));
  }

  kernel_type kernel_;
  std::int32_t num_rows_;
  std::int32_t num_cols_;
  std::int32_t num_panels_;
  std::int32_t panel_columns_;
  unsigned num_shares_;
  cuda::device_array<std::int32_t> share_parts_;
  cuda::device_array<cuda::panel_part> parts_;
  cuda::device_array<std::int32_t> first_sums_;
  cuda::device_array<std::uint16_t> columns_;
  cuda::device_array<std::uint16_t> lanes_;
  cuda::device_array<std::byte> values_;
  cuda::device_array<sum_type> sums_;
  cuda::device_array<sum_type> carries_;
  cuda::device_array<int2> row_blocks_;
  cuda::device_array<std::int32_t> block_cuts_;
  cuda::device_array<std::int32_t> cut_rows_;
  cuda::device_array<std::int32_t> cut_ptr_;
  cuda::device_array<std::int32_t> cut_chunks_;
  bool overlaps_launches_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_column_panels_shared_x(const device_csr& source,
                                                                       const product_request& request,
                                                                       const device_allocator& allocate) {
  const csr_view& matrix = source.host();
  return cuda::dispatch_device_type(matrix.dtype, [&](auto value) -> std::unique_ptr<product_plan> {
    using device_value = decltype(value);
    const column_panels_matrix panels = to_column_panels(matrix, columns_for_device<device_value>(matrix, request));
    return std::make_unique<shared_x_plan<device_value>>(panels, allocate);
  });
}

}  // namespace warploom
