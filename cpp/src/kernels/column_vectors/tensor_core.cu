// The plan of column vectors on tensor cores (tensor_core.cuh).
#include <algorithm>
#include <limits>

#include "kernels/bsr/reason.hpp"
#include "kernels/column_vectors/column_vectors.hpp"
#include "kernels/column_vectors/long_windows.cuh"
#include "kernels/column_vectors/tensor_core.cuh"
#include "kernels/description.hpp"
#include "kernels/dispatch_constant.hpp"
#include "kernels/finishing.hpp"
#include "kernels/spmm/copied_panels.hpp"
#include "kernels/spmm/padded_copy.hpp"
#include "kernels/spmm/transposing_plan.hpp"
#include "warploom/formats/format.hpp"

namespace warploom {
namespace cuda::column_vectors {
namespace {

// What rows of B that are read value by value take longer, for each vector and column: an estimate from the loads that
// are issued, a multiple of those of whole vectors, until it is measured.
constexpr unaligned_cost one_by_one_cost{0, 0.3};

template <class Value, int V, int N, int S, moved Moved, class Product>
__global__ void __launch_bounds__(threads_per_block) window_kernel(const Product product) {
  multiply_window<Value, V, N, S, Moved>(product, (blockIdx.x * threads_per_block + threadIdx.x) / 32);
}

template <class Value>
class launcher {
 public:
  launcher(std::int64_t num_vectors, std::int64_t rows_of_B, cudaStream_t stream)
      : num_vectors_(num_vectors), rows_of_B_(rows_of_B), stream_(stream) {}

  template <class Product>
  void operator()(const Product& product) const {
    if (!run_copied(product)) run_panel(product);
  }

 private:
  static constexpr int widest = widest_vector<Value>;

  // From a copy of B whose rows are aligned and filled up, if that takes less time and there is memory for it.
  template <class Product>
  bool run_copied(const Product& product) const {
    if (loads_vectors(product, 4)) return false;
    constexpr std::int64_t size = sizeof(Value);
    const std::int64_t panel =
        copied_columns({num_vectors_, rows_of_B_, product.k, size, one_by_one_cost}, widest_tile);
    if (panel == 0) return false;
    const dense_view B{const_cast<Value*>(product.B), rows_of_B_, product.k, product.ldb};
    return multiply_copied_panels(B, size, panel, 0, stream_,
                                  [&](const dense_view& copy, std::int64_t first, std::int64_t columns) {
                                    Product part = from_column(product, first);
                                    part.B = static_cast<const Value*>(copy.data);
                                    part.ldb = copy.leading_dimension;
                                    part.k = static_cast<int>(columns);
                                    run_padded(part);
                                  });
  }

  // `product.B` has aligned rows that are filled up to 16 bytes.
  template <class Product>
  void run_padded(const Product& product) const {
    constexpr moved by = moved::loaded_at_once;
    if (stores_vectors(product, product.k > 32 ? widest : 4)) return run_panel(product);
    if (product.k > 64) return launch<widest, 16 / widest, by>(product);
    if (product.k > 32) return launch<widest, 8 / widest, by>(product);
    launch<4, 1, by>(product);
  }

  template <class Product>
  void run_panel(const Product& product) const {
    constexpr moved by = moved::at_once;
    if (product.k > 64 && takes_vectors(product, widest)) return launch<widest, 16 / widest, by>(product);
    if (product.k > 32 && takes_vectors(product, widest)) return launch<widest, 8 / widest, by>(product);
    if (takes_vectors(product, 4)) return launch<4, 1, by>(product);
    const bool filled_up = product.k % 4 == 0;
    if (filled_up && loads_vectors(product, 4)) return launch<4, 1, moved::loaded_at_once>(product);
    launch<4, 1, moved::one_by_one>(product);
  }

  template <int V, int N, moved Moved, class Product>
  void launch(const Product& product) const {
    static_assert(8 * V * N >= narrowest_tile && 8 * V * N <= widest_tile);
    constexpr int tile = 8 * V * N;
    const dim3 grid(blocks_for(std::int64_t{product.A.num_segments} * 32, threads_per_block),
                    static_cast<unsigned>((product.k + tile - 1) / tile));
    dispatch_constant<1, 2>(product.strips, [&](auto strips) {
      window_kernel<Value, V, N, strips, Moved><<<grid, threads_per_block, 0, stream_>>>(product);
      check_launch("window_kernel");
      add_long_windows<Value, V, N, strips, Moved>(product, stream_);
    });
  }

  std::int64_t num_vectors_;
  std::int64_t rows_of_B_;
  cudaStream_t stream_;
};

template <class Value>
class tensor_core_plan final : public product_plan, public finishing_plan {
 public:
  tensor_core_plan(device_bsr vectors, const device_csr& matrix, const product_request& request,
                   const device_allocator& allocate)
      : windows_(std::move(vectors), request.row_ids, matrix.summary().longest_row, request.k,
                 request.parameters.at("segment_length"), matrix.stream(), allocate) {
    make_pool(memory_pool::products);
  }

  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (by.bias_is_column || C.num_cols > windows_.widest_panel()) return false;
    const finishing_window_product<Value> product{windows_.panel_of(B, C, 0), finishing_values<Value>(by)};
    launcher<Value>(windows_.num_vectors(), B.num_rows, stream)(product);
    return true;
  }

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    for (std::int64_t first = 0; first < C.num_cols; first += windows_.widest_panel()) {
      multiply_windows(windows_.panel_of(B, C, first), windows_.num_vectors(), B.num_rows, stream);
    }
  }

  std::size_t bytes() const override { return windows_.bytes(); }
  std::vector<value_array> value_arrays() override { return {windows_.all_values()}; }

 private:
  device_windows<Value> windows_;
};

}  // namespace

template <class Value>
void multiply_windows(const window_product<Value>& product, std::int64_t num_vectors, std::int64_t rows_of_B,
                      cudaStream_t stream) {
  launcher<Value>(num_vectors, rows_of_B, stream)(product);
}

template void multiply_windows(const window_product<__half>&, std::int64_t, std::int64_t, cudaStream_t);
template void multiply_windows(const window_product<__nv_bfloat16>&, std::int64_t, std::int64_t, cudaStream_t);
template void multiply_windows(const window_product<float>&, std::int64_t, std::int64_t, cudaStream_t);

}  // namespace cuda::column_vectors

namespace {

using cuda::column_vectors::tensor_core_plan;

std::unique_ptr<product_plan> prepare(const std::string& label, const device_csr& matrix, const product_request& given,
                                      const device_allocator& allocate) {
  refuse_candidate(label, cuda::column_vectors::tensor_core_reason());
  const block_shape shape = vectors_of(given.parameters.at("vector_rows"));
  const auto accept = [&](const cuda::device_bsr::sizes& sizes) {
    refuse_candidate(label, bsr_reason(matrix.dtype(), shape, sizes.repeats, sizes.places, matrix.nnz()));
  };
  cuda::device_bsr vectors(matrix, shape, accept, allocate);
  vectors.forget_occupied();
  product_request request = given;
  const std::int64_t k = request.k;
  if (request.order == layout::column_major) request.k = cuda::padded_columns(k, matrix.dtype());
  std::unique_ptr<product_plan> plan;
  if (matrix.dtype() == value_type::float16) {
    plan = std::make_unique<tensor_core_plan<__half>>(std::move(vectors), matrix, request, allocate);
  } else if (matrix.dtype() == value_type::bfloat16) {
    plan = std::make_unique<tensor_core_plan<__nv_bfloat16>>(std::move(vectors), matrix, request, allocate);
  } else {
    plan = std::make_unique<tensor_core_plan<float>>(std::move(vectors), matrix, request, allocate);
  }
  if (request.order == layout::row_major) return plan;
  return cuda::make_transposing_plan(std::move(plan), matrix, k, allocate);
}

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmm_column_vectors_tensor_core(const device_csr& matrix,
                                                                           const product_request& request,
                                                                           const device_allocator& allocate) {
  return prepare("column-vectors/tensor_core", matrix, request, allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmm_column_vectors_tensor_core_tf32(const device_csr& matrix,
                                                                                const product_request& request,
                                                                                const device_allocator& allocate) {
  return prepare("column-vectors/tensor_core_tf32", matrix, request, allocate);
}

std::unique_ptr<stored_matrix> column_vectors_on_gpu(const device_csr& matrix, const option_values& options) {
  const auto accept = [](const cuda::device_bsr::sizes&) {};
  const block_shape shape = vectors_of(options.integer("vector_rows"));
  return stored(cuda::device_bsr(matrix, shape, accept, allocate_device_memory).download());
}

}  // namespace warploom
