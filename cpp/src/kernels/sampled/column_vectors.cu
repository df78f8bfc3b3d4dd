// The sampled product of float16 and bfloat16 on tensor cores, for patterns whose neighbouring rows share columns: a
// row of Y is read once for the 8 rows of a window.
//
// The columns of a window are in groups of 16. The instruction m16n8k16 multiplies the 16 rows of Y of a group with the
// 8 rows of X of the window: of the 128 sums those count that the pattern has. Which columns of X and Y make up the 16
// of the inner dimension is free, as long as it is the same in both: a lane reads 8 neighbouring ones, so that rows go
// from memory to registers 16 bytes at once. In the words of the instruction, lane l has g = l / 4 and t = l % 4; it
// reads rows g and 8 + g of the group and row g of the window, columns 8 t .. 8 t + 8 of each 32, and ends up with the
// sums of rows 2 t and 2 t + 1 of the window and columns g and 8 + g of the group.
//
// A group says for each row of the window which of its 16 columns are nonzeros of it, and where in CSR order the first
// of them is: it does not depend on other groups. A warp takes several of them one after the other, which mostly have
// the window in common, and keeps the rows of X.
//
// Sums are those of tensor cores, in float32, and rounded once. The order of additions depends on k alone.
//
// At least m rows of X and n rows of Y are read once, 116 bytes for 16 columns of a window, and 2 bytes a nonzero are
// written; where rows of Y miss the caches, each column of a window costs 2 k bytes more, where a kernel on CSR pays
// that for each nonzero.
#include <algorithm>
#include <string>

#include "device/algorithms.hpp"
#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "device/workspace.hpp"
#include "kernels/bsr/merged_rows.cuh"
#include "kernels/device/tensor_core.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/sampled/prepared_product.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace cuda::sampled {
namespace {

constexpr int window_rows = 8;
constexpr int group_columns = 16;
constexpr int threads_per_block = 128;

// ---- Preparing

// Going through longer rows of a window takes longer than products save.
constexpr std::int64_t longest_row = 8192;

// Measured on an H200: with fewer nonzeros in a group on the average, rows of Y are read about as often without, and
// products with 128 columns gain nothing.
constexpr double fewest_in_group = 16.5;

struct groups_view {
  int num_groups;
  std::int32_t* windows;    // [groups]
  std::int32_t* columns;    // [groups][16]; the last one again where there are fewer
  std::uint16_t* masks;     // [groups][8]: bit c: column c is a nonzero of the row
  std::int32_t* positions;  // [groups][8]: of the first of these in CSR order
};

// `begins`: the first group of each window.
__global__ void __launch_bounds__(threads_per_merging_block)
    group_columns_kernel(const csr_rows_view A, const std::int32_t* __restrict__ begins, int num_cols,
                         const groups_view to) {
  const unsigned row = blockIdx.x * threads_per_merging_block + threadIdx.x;
  const unsigned window = row / window_rows;
  const unsigned i = row % window_rows;
  column_reader entries(A, row);
  std::int64_t group = window < A.num_block_rows ? __ldg(begins + window) : 0;
  int place = 0;
  unsigned mask = 0;
  int column = 0;
  const auto finish_group = [&] {
    to.masks[group * window_rows + i] = static_cast<std::uint16_t>(mask);
    if (i == 0) to.windows[group] = static_cast<std::int32_t>(window);
    mask = 0;
    place = 0;
    ++group;
  };
  while (true) {
    const int lowest = lowest_block_column<window_rows>(entries, 0);
    if (!any_lane(lowest != no_column)) break;
    if (lowest == no_column) continue;  // the shuffles go on for the others
    const std::uint32_t position = entries.at();
    const bool is_nonzero = entries.is_in(lowest, 0);
    if (is_nonzero) entries.advance();
    if (group >= to.num_groups) continue;  // the arrays have changed since groups were counted
    if (place == 0) to.positions[group * window_rows + i] = static_cast<std::int32_t>(position);
    mask |= static_cast<unsigned>(is_nonzero) << place;
    column = static_cast<int>(min(static_cast<unsigned>(lowest), static_cast<unsigned>(num_cols) - 1));
    if (i == 0) to.columns[group * group_columns + place] = column;
    if (++place == group_columns) finish_group();
  }
  if (place == 0) return;
  for (int rest = place + static_cast<int>(i); rest < group_columns; rest += window_rows) {
    to.columns[group * group_columns + rest] = column;
  }
  finish_group();
}

// ---- Multiplying

template <class Value>
struct group_product {
  groups_view A;
  int groups_per_warp;
  int num_rows;
  int k;
  const Value* X;
  unsigned X_stride;  // bytes from row to row
  const Value* Y;
  unsigned Y_stride;
  Value* out;
};

constexpr int lane_columns = 8;
constexpr int chunk_columns = 4 * lane_columns;  // of a quad

using words = vector<unsigned, 4>;  // of a lane: 8 columns of a row

// Chunks of 32 columns are held of each row at a time. `Whole`: k is 32 Chunks, so that rows of X are loaded for each
// window only.
template <class Value, int Chunks, bool Whole>
__global__ void __launch_bounds__(threads_per_block) group_kernel(const group_product<Value> given) {
  const int quad = static_cast<int>(lane_id()) / 4, lane_of_quad = static_cast<int>(lane_id()) % 4;
  const int warp = static_cast<int>(blockIdx.x * (threads_per_block / 32) + threadIdx.x / 32);
  const std::int64_t begin = std::int64_t{warp} * given.groups_per_warp;
  const int end = static_cast<int>(min(begin + given.groups_per_warp, std::int64_t{given.A.num_groups}));
  const bool is_one_pass = Whole || given.k <= Chunks * chunk_columns;
  int window_of_x = -1;
  words x[Chunks];
  for (int group = static_cast<int>(begin); group < end; ++group) {
    const std::int32_t* const columns = given.A.columns + std::int64_t{group} * group_columns;
    const auto row_of_Y = [&](int place) {
      const auto column = static_cast<unsigned>(__ldg(columns + place));
      return reinterpret_cast<const char*>(given.Y) + std::uint64_t{column} * given.Y_stride;
    };
    const char* const Y[2] = {row_of_Y(quad), row_of_Y(quad + 8)};
    const int window = __ldg(given.A.windows + group);
    const std::int64_t of_lane = std::int64_t{group} * (window_rows / 2) + lane_of_quad;
    const unsigned masks = __ldg(reinterpret_cast<const unsigned*>(given.A.masks) + of_lane);
    const int2 positions = __ldg(reinterpret_cast<const int2*>(given.A.positions) + of_lane);
    float sums[4] = {};
    for (int first = 0; first == 0 || (!is_one_pass && first < given.k); first += Chunks * chunk_columns) {
      const int column = first + lane_of_quad * lane_columns;
      const auto load_row = [&](const char* from, words(&to)[Chunks]) {
#pragma unroll
        for (int chunk = 0; chunk < Chunks; ++chunk) {
          const int at = column + chunk * chunk_columns;
          if (Whole || at < given.k) {
            to[chunk] = load<unsigned, 4>(reinterpret_cast<const unsigned*>(from + at * sizeof(Value)));
          } else {
            to[chunk] = {};
          }
        }
      };
      words y[2][Chunks];
      load_row(Y[0], y[0]);
      load_row(Y[1], y[1]);
      if (!is_one_pass || window != window_of_x) {
        const unsigned row = min(window * window_rows + quad, given.num_rows - 1);
        load_row(reinterpret_cast<const char*>(given.X) + std::uint64_t{row} * given.X_stride, x);
        window_of_x = window;
      }
#pragma unroll
      for (int chunk = 0; chunk < Chunks; ++chunk) {
#pragma unroll
        for (int w = 0; w < 4; w += 2) {
          const unsigned a[4] = {y[0][chunk].lane[w], y[1][chunk].lane[w], y[0][chunk].lane[w + 1],
                                 y[1][chunk].lane[w + 1]};
          const unsigned b[2] = {x[chunk].lane[w], x[chunk].lane[w + 1]};
          multiply_add<Value>(sums, a, b);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned mask = i == 0 ? masks & 0xffff : masks >> 16;
      Value* const out = given.out + (i == 0 ? positions.x : positions.y);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned bit = 1u << (quad + half * 8);
        if (mask & bit) out[__popc(mask & (bit - 1))] = narrow<Value>(sums[half * 2 + i]);
      }
    }
  }
}

template <class Value, int Chunks>
void launch(const group_product<Value>& given, cudaStream_t stream) {
  const auto kernel =
      given.k == Chunks * chunk_columns ? group_kernel<Value, Chunks, true> : group_kernel<Value, Chunks, false>;
  const std::int64_t warps = (given.A.num_groups + given.groups_per_warp - 1) / given.groups_per_warp;
  kernel<<<blocks_for(warps * 32, threads_per_block), threads_per_block, 0, stream>>>(given);
  check_launch("group_kernel");
}

class column_vectors_product final : public prepared_sampled_product {
 public:
  column_vectors_product(const device_csr& pattern, device_array<std::int32_t> words, int num_groups)
      : pattern_(pattern), words_(std::move(words)), num_groups_(num_groups) {}

  void run(const dense_view& X, const dense_view& Y, value_type dtype, void* out, CUstream_st* stream) override {
    if (dtype == value_type::float16 && run_as<__half>(X, Y, out, stream)) return;
    if (dtype == value_type::bfloat16 && run_as<__nv_bfloat16>(X, Y, out, stream)) return;
    sampled_product_cuda(arrays_of(pattern_), pattern_.nnz(), X, Y, dtype, out, stream);
  }
  std::size_t bytes() const override { return words_.bytes(); }

  // In 32-bit words.
  static constexpr int words_per_group = 1 + group_columns + window_rows / 2 + window_rows;
  static groups_view view(std::int32_t* words, std::int64_t num_groups) {
    // What is loaded two words at once comes first.
    std::int32_t* const positions = words;
    std::int32_t* const columns = positions + num_groups * window_rows;
    std::int32_t* const masks = columns + num_groups * group_columns;
    std::int32_t* const windows = masks + num_groups * window_rows / 2;
    return {static_cast<int>(num_groups), windows, columns, reinterpret_cast<std::uint16_t*>(masks), positions};
  }

 private:
  template <class Value>
  bool run_as(const dense_view& X, const dense_view& Y, void* out, CUstream_st* stream) const {
    const auto fits = [](const dense_view& operand) {
      const std::int64_t bytes = operand.leading_dimension * static_cast<std::int64_t>(sizeof(Value));
      return reinterpret_cast<std::uintptr_t>(operand.data) % 16 == 0 && bytes % 16 == 0 &&
             bytes < std::int64_t{1} << 32;
    };
    if (num_groups_ == 0 || X.num_cols == 0 || X.num_cols % lane_columns != 0 || !fits(X) || !fits(Y)) return false;
    constexpr std::int64_t warps_wanted = 16384;  // some for every place of a large GPU
    const group_product<Value> given{view(words_.data(), num_groups_),
                                     static_cast<int>(std::clamp<std::int64_t>(num_groups_ / warps_wanted, 1, 8)),
                                     static_cast<int>(pattern_.num_rows()),
                                     static_cast<int>(X.num_cols),
                                     static_cast<const Value*>(X.data),
                                     static_cast<unsigned>(X.leading_dimension * sizeof(Value)),
                                     static_cast<const Value*>(Y.data),
                                     static_cast<unsigned>(Y.leading_dimension * sizeof(Value)),
                                     static_cast<Value*>(out)};
    if (given.k <= 32) {
      launch<Value, 1>(given, stream);
    } else if (given.k <= 64) {
      launch<Value, 2>(given, stream);
    } else {
      launch<Value, 4>(given, stream);
    }
    return true;
  }

  const device_csr& pattern_;
  device_array<std::int32_t> words_;
  int num_groups_;
};

std::string reason_against(const device_csr& pattern) {
  if (device_attribute(cudaDevAttrComputeCapabilityMajor) < 8) return "needs a GPU of compute capability 8.0 or newer";
  if (pattern.wide()) return "takes fewer than 2^31 nonzeros";
  if (pattern.summary().longest_row > longest_row) return "takes rows of at most 8192 nonzeros";
  return "";
}

}  // namespace
}  // namespace cuda::sampled

std::unique_ptr<prepared_sampled_product> prepare_vector_sampled_product(const device_csr& pattern, bool always) {
  using namespace cuda;
  using product = sampled::column_vectors_product;
  const auto refuse = [&](const std::string& reason) -> std::unique_ptr<prepared_sampled_product> {
    if (!always) return nullptr;
    throw error(error_kind::parameter, "select", -1, "column-vectors/tensor_core " + reason);
  };
  if (const std::string reason = sampled::reason_against(pattern); !reason.empty()) return refuse(reason);
  if (pattern.nnz() == 0) return std::make_unique<product>(pattern, device_array<std::int32_t>(), 0);

  const cudaStream_t stream = pattern.stream();
  const std::int64_t num_windows = (pattern.num_rows() + sampled::window_rows - 1) / sampled::window_rows;
  const csr_rows_view A{static_cast<unsigned>(pattern.num_rows()), static_cast<unsigned>(num_windows),
                        static_cast<unsigned>(pattern.nnz()), pattern.indptr32(), pattern.indices()};
  const unsigned blocks = blocks_for(num_windows * sampled::window_rows, threads_per_merging_block);
  const pooled_memory counts(num_windows * sizeof(std::int32_t) + sizeof(merged_sizes), stream);
  auto* const begins = counts.as<std::int32_t>();
  auto* const sizes_behind = reinterpret_cast<merged_sizes*>(begins + num_windows);
  fill_device(sizes_behind, 0, sizeof(merged_sizes), stream);
  count_blocks_kernel<sampled::window_rows>
      <<<blocks, threads_per_merging_block, 0, stream>>>(A, 0, sampled::group_columns, begins);
  check_launch("count_blocks_kernel");
  // The total takes the place behind the last count: merged_sizes::num_blocks.
  exclusive_scan(begins, begins, num_windows + 1, stream);
  const merged_sizes found = read_back(sizes_behind, stream);
  if (found.unsorted != 0) return refuse("takes rows whose columns ascend");
  if (found.repeats != 0) return refuse("takes rows without repeated columns");
  const std::int64_t num_groups = found.num_blocks;
  if (!always && static_cast<double>(pattern.nnz()) < sampled::fewest_in_group * static_cast<double>(num_groups)) {
    return nullptr;
  }

  device_array<std::int32_t> words(num_groups * product::words_per_group, allocate_device_memory);
  sampled::group_columns_kernel<<<blocks, threads_per_merging_block, 0, stream>>>(
      A, begins, static_cast<int>(pattern.num_cols()), product::view(words.data(), num_groups));
  check_launch("group_columns_kernel");
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream));  // products may be enqueued on another one
  return std::make_unique<product>(pattern, std::move(words), static_cast<int>(num_groups));
}

}  // namespace warploom
