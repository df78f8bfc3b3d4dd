// SpMM on hybrid-vectors, row-major B and C: the first thread blocks of a launch take windows as column vectors do on
// tensor cores (column_vectors/tensor_core.cuh), the others take segments of the remaining rows as row_split does, a
// warp each. Both parts have the same tiles of columns, and every row of C belongs to one of them.
//
// A vector costs one row of B, whatever it holds, and a nonzero of another row costs one, too: windows pay off from one
// nonzero and a bit per vector where loads of B decide. In between zeros of vectors cost their bytes of A.
//
// The kernel takes the registers of windows, so that fewer warps of rows are there at a time than row_split has: in
// the widest tiles each has twice as many loads of B in flight instead. With launches=2 each part has a kernel of its
// own.
//
// Where rows of B or C do not begin on the boundaries of vectors, the parts are launched one after the other, each with
// what it has for such operands.
#include <algorithm>
#include <utility>

#include "kernels/column_vectors/long_windows.cuh"
#include "kernels/column_vectors/tensor_core.cuh"
#include "kernels/description.hpp"
#include "kernels/finishing.hpp"
#include "kernels/hybrid_vectors/device_hybrid_vectors.hpp"
#include "kernels/row_split/row_split.cuh"
#include "kernels/spmm/transposing_plan.hpp"

namespace warploom {
namespace cuda::hybrid_vectors {
namespace {

using column_vectors::finishing_window_product;
using column_vectors::moved;
using column_vectors::narrowest_tile;
using column_vectors::takes_vectors;
using column_vectors::threads_per_block;
using column_vectors::window_product;
using row_split::finishing_operands;
using row_split::row_major_operands;
using row_split::segment_items;
using row_split::thread_shape;

// How many rows of B a thread loads at once for a segment: 4, or 8 where windows take so many registers anyway.
template <int V, int N>
constexpr int nonzeros_at_once = 8 * V * N == column_vectors::widest_tile ? 8 : 4;

// The threads of a warp that take the V columns of a vector of B each, for a tile of 8 V N columns; the others share
// the nonzeros of a segment.
template <int N>
__device__ constexpr thread_shape warp_shape() {
  static_assert(N == 1 || N == 2 || N == 4);
  constexpr int column_bits = N == 1 ? 3 : N == 2 ? 4 : 5;
  return {column_bits, 5 - column_bits};
}

template <class Value, int V, int N, class Windows, class Operands>
__global__ void __launch_bounds__(threads_per_block)
    hybrid_kernel(const Windows windows, const segment_items<Value> others, const Operands operands,
                  const unsigned window_blocks) {
  constexpr thread_shape shape = warp_shape<N>();
  constexpr unsigned warps_per_block = threads_per_block / 32;
  if (blockIdx.x < window_blocks) {
    column_vectors::multiply_window<Value, V, N, 1, moved::at_once>(windows,
                                                                    blockIdx.x * warps_per_block + threadIdx.x / 32);
  } else {
    row_split::multiply_item<nonzeros_at_once<V, N>, Value, V, 1>(
        others, operands, shape, (blockIdx.x - window_blocks) * warps_per_block + threadIdx.x / 32);
  }
}

// Of row_split, where it is launched by itself.
product_request row_split_request(const product_request& request, device_permutation row_ids) {
  product_request result = request;
  result.parameters = {{"threads_per_row", 32},
                       {"column_threads", 0},
                       {"columns_per_thread", 8},
                       {"threads_per_block", threads_per_block},
                       {"unroll", 8},
                       {"segment_length", request.parameters.at("segment_length")},
                       {"longest_first", 1}};
  result.row_ids = std::move(row_ids);
  return result;
}

template <class Value>
class hybrid_plan final : public product_plan, public finishing_plan {
 public:
  hybrid_plan(device_bsr vectors, device_permutation vector_rows, const device_csr& others,
              const product_request& request, bool as_one, const device_allocator& allocate)
      : windows_(std::move(vectors), std::move(vector_rows), others.summary().longest_row, request.k,
                 request.parameters.at("segment_length"), others.stream(), allocate),
        others_(others, request, requested_segments(request, pieces_of_group(lanes_that_share(request.k))), request.k,
                most_tiles(request), allocate),
        row_ids_(request.row_ids),
        num_others_(others.num_rows()),
        as_one_(as_one),
        launch_others_(row_split::row_split_shape(request, sizeof(Value)), static_cast<std::int64_t>(others_.size()),
                       others.nnz(), request.parameters.at("segment_length")) {}

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    const row_major_operands<Value> operands = row_split::make_operands<Value>(B, C);
    for (std::int64_t first = 0; first < C.num_cols; first += windows_.widest_panel()) {
      const window_product<Value> windows = windows_.panel_of(B, C, first);
      row_major_operands<Value> panel = operands;
      panel.B += first;
      panel.C += first;
      panel.k = windows.k;
      if (run_as_one(windows, panel, stream)) continue;
      if (windows_.num_segments() > 0) {
        column_vectors::multiply_windows(windows, windows_.num_vectors(), B.num_rows, stream);
      }
      if (others_.size() > 0) row_split::multiply_segments(launch_others_, items(), panel, B.num_rows, stream);
    }
  }

  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (by.bias_is_column || C.num_cols > windows_.widest_panel()) return false;
    const finishing_window_product<Value> windows{windows_.panel_of(B, C, 0), finishing_values<Value>(by)};
    return run_as_one(windows, row_split::make_operands<Value>(B, C, by), stream);
  }

  std::size_t bytes() const override { return windows_.bytes() + others_.bytes() + num_others_ * sizeof(std::int32_t); }
  std::vector<value_array> value_arrays() override {
    std::vector<value_array> arrays;
    for (const value_array& part : {windows_.all_values(), others_.all_values()}) {
      if (part.places > 0) arrays.push_back(part);
    }
    return arrays;
  }

 private:
  // The nonzeros of a segment, as warp_shape says for the tiles that products with k columns have.
  static int lanes_that_share(std::int64_t k) {
    const int columns_of_lane = k > narrowest_tile ? column_vectors::widest_vector<Value> : 4;
    return 32 * columns_of_lane / column_vectors::tile_columns(k);
  }

  // Of columns, over which arrivals are counted apart: as one launch has them, or row_split by itself.
  static std::size_t most_tiles(const product_request& request) {
    const std::int64_t as_one = (request.k + narrowest_tile - 1) / narrowest_tile;
    return static_cast<std::size_t>(
        std::max(as_one, row_split::row_split_shape(request, sizeof(Value)).most_tiles(request.k)));
  }

  segment_items<Value> items() const { return {others_.view()}; }

  // False, with nothing enqueued, if the operands are not aligned, or the parts are to be launched one by one.
  template <class Windows, class Operands>
  bool run_as_one(const Windows& windows, const Operands& operands, cudaStream_t stream) const {
    constexpr int widest = column_vectors::widest_vector<Value>;
    if (!as_one_) return false;
    if (windows.k > 64 && takes_vectors(windows, widest)) {
      launch<widest, 16 / widest>(windows, operands, stream);
    } else if (windows.k > 32 && takes_vectors(windows, widest)) {
      launch<widest, 8 / widest>(windows, operands, stream);
    } else if (takes_vectors(windows, 4)) {
      launch<4, 1>(windows, operands, stream);
    } else {
      return false;
    }
    return true;
  }

  template <int V, int N, class Windows, class Operands>
  void launch(const Windows& windows, const Operands& operands, cudaStream_t stream) const {
    constexpr int tile = 8 * V * N;
    const unsigned window_blocks = blocks_for(windows_.num_segments() * 32, threads_per_block);
    const unsigned other_blocks = blocks_for(static_cast<std::int64_t>(others_.size()) * 32, threads_per_block);
    const dim3 grid(window_blocks + other_blocks, static_cast<unsigned>((windows.k + tile - 1) / tile));
    hybrid_kernel<Value, V, N><<<grid, threads_per_block, 0, stream>>>(windows, items(), operands, window_blocks);
    check_launch("hybrid_kernel");
    column_vectors::add_long_windows<Value, V, N, 1, moved::at_once>(windows, stream);
    row_split::add_long_rows(items().A, operands, stream);
  }

  column_vectors::device_windows<Value> windows_;
  device_segments<Value> others_;
  device_permutation row_ids_;  // of the others
  std::int64_t num_others_;
  bool as_one_;
  row_split::launcher<Value, segment_items<Value>> launch_others_;
};

// Which rows of C the rows of a part are.
device_permutation rows_of_C(const product_request& request, const device_permutation& rows, const device_csr& part,
                             const device_allocator& allocate) {
  return request.row_ids ? compose(request.row_ids, rows.get(), part, allocate) : rows;
}

std::unique_ptr<product_plan> prepare(const std::string& label, const device_csr& matrix, const product_request& given,
                                      const device_allocator& allocate) {
  refuse_candidate(label, column_vectors::tensor_core_reason());
  const window_split split = split_windows(matrix, given.parameters.at("nonzeros_per_vector"), allocate);
  device_bsr vectors(*split.windows, column_vector, [](const device_bsr::sizes&) {}, allocate);
  vectors.forget_occupied();
  const device_permutation vector_rows = rows_of_C(given, split.vector_rows, *split.windows, allocate);
  product_request request = row_split_request(given, rows_of_C(given, split.other_rows, *split.others, allocate));
  const bool transposes = given.order == layout::column_major;
  if (transposes) {
    request.order = layout::row_major;
    request.k = padded_columns(given.k, matrix.dtype());
  }
  const auto make = [&]<class Value>(Value) -> std::unique_ptr<product_plan> {
    return std::make_unique<hybrid_plan<Value>>(std::move(vectors), vector_rows, *split.others, request,
                                                given.parameters.at("launches") == 1, allocate);
  };
  std::unique_ptr<product_plan> plan;
  if (matrix.dtype() == value_type::float16) {
    plan = make(__half{});
  } else if (matrix.dtype() == value_type::bfloat16) {
    plan = make(__nv_bfloat16{});
  } else {
    plan = make(float{});
  }
  if (!transposes) return plan;
  return make_transposing_plan(std::move(plan), matrix, given.k, allocate);
}

}  // namespace
}  // namespace cuda::hybrid_vectors

std::unique_ptr<product_plan> prepare_cuda_spmm_hybrid_vectors_tensor_core(const device_csr& matrix,
                                                                           const product_request& request,
                                                                           const device_allocator& allocate) {
  return cuda::hybrid_vectors::prepare("hybrid-vectors/tensor_core", matrix, request, allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmm_hybrid_vectors_tensor_core_tf32(const device_csr& matrix,
                                                                                const product_request& request,
                                                                                const device_allocator& allocate) {
  return cuda::hybrid_vectors::prepare("hybrid-vectors/tensor_core_tf32", matrix, request, allocate);
}

}  // namespace warploom
