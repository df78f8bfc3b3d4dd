// The sampled product on tensor cores, for patterns whose neighbouring rows share columns: a row of Y is read once for
// the 8 rows of a window.
//
// The columns of a window are in groups of 16. A warp multiplies the 16 rows of Y of a group with the 8 rows of X of
// the window: of the 128 sums those count that the pattern has. Which columns of X and Y make up the inner dimension of
// an instruction is free, as long as it is the same in both: a lane reads neighbouring ones, so that rows go from
// memory to registers 16 bytes at once. In the words of the instructions, lane l has g = l / 4 and t = l % 4; it reads
// rows g and 8 + g of the group and row g of the window, 16 bytes of each 64, and ends up with the sums of rows 2 t and
// 2 t + 1 of the window and columns g and 8 + g of the group.
//
// A group says for each row of the window which of its 16 columns are nonzeros of it, and where in CSR order the first
// of them is: it does not depend on other groups. A warp takes several of them one after the other, which mostly have
// the window in common, and keeps the rows of X.
//
// Sums of float16 and bfloat16 are those of tensor cores, in float32, and rounded once; those of float64 are in
// float64. Values of float32 are taken apart into two of TF32 (Ootomo & Yokota 2022, Recovering single precision
// accuracy from Tensor Cores while avoiding the FP32 theoretical peak performance): a product is off by 2^-22 of it at
// most, and sums of more than 16 columns are rounded as those of float32. The order of additions depends on k alone.
//
// At least m rows of X and n rows of Y are read once, 116 bytes for 16 columns of a window, and s bytes a nonzero are
// written (s bytes a value); where rows of Y miss the caches, each column of a window costs s k bytes more, where a
// kernel on CSR pays that for each nonzero.
#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>

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

// Measured on an H200, of 190 patterns and products of 32 to 128 columns: with fewer nonzeros in a group on the
// average, rows of Y are read about as often without. Where there are few nonzeros in all, warps have less to do before
// they begin. Taking float32 apart costs as much as reading two rows of Y.
double fewest_in_group(value_type dtype, std::int64_t nnz) {
  constexpr double few = 9;
  if (dtype == value_type::float64) return few;
  if (dtype == value_type::float32) return nnz <= 10'000 ? few : 40;
  return nnz <= 200'000 ? few : 16.5;
}

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

using words = vector<unsigned, 4>;  // of a lane: 16 bytes of a row

template <class Value>
constexpr int lane_columns = sizeof(words) / sizeof(Value);
template <class Value>
constexpr int chunk_columns = 4 * lane_columns<Value>;  // of a quad

// The four sums of a lane, number 2 h + i of column g + 8 h and row 2 t + i.
template <class Value>
struct tile_sums {
  float sums[4] = {};

  // Of a chunk, two rows of Y and one of X.
  __device__ __forceinline__ void add(const words& first, const words& second, const words& x) {
#pragma unroll
    for (int w = 0; w < 4; w += 2) {
      const unsigned a[4] = {first.lane[w], second.lane[w], first.lane[w + 1], second.lane[w + 1]};
      const unsigned b[2] = {x.lane[w], x.lane[w + 1]};
      multiply_add<Value>(sums, a, b);
    }
  }
  __device__ __forceinline__ Value value(int i) const { return narrow<Value>(sums[i]); }
};

template <>
struct tile_sums<float> {
  // Of products of high parts, and of those of low parts, in two: an instruction waits for the one before it on the
  // same sums.
  float sums[4] = {}, low_sums[2][4] = {};

  // A value is the sum of both but for 2^-23 of it, where it is less than 2^114: else they are not finite. Conversions
  // to TF32 would take four times as long as this arithmetic.
  struct parts {
    unsigned high[4], low[4];

    __device__ __forceinline__ explicit parts(const words& from) {
      constexpr float scale = 1 << 13;
      constexpr unsigned bits_of_tf32 = 0xffffe000u;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float value = __uint_as_float(from.lane[i]);
        const float nearest = __fmaf_rn(value, -scale, __fmul_rn(value, scale + 1));
        high[i] = __float_as_uint(nearest);
        low[i] = __float_as_uint(__fsub_rn(value, nearest)) & bits_of_tf32;
      }
    }
  };

  // Tensor cores truncate sums: those of large products are added up here.
  __device__ __forceinline__ void add(const words& first, const words& second, const words& x) {
    const parts y[2] = {parts(first), parts(second)}, of_x(x);
    float high_sums[4] = {};
#pragma unroll
    for (int w = 0; w < 4; w += 2) {
      const unsigned high[4] = {y[0].high[w], y[1].high[w], y[0].high[w + 1], y[1].high[w + 1]};
      const unsigned low[4] = {y[0].low[w], y[1].low[w], y[0].low[w + 1], y[1].low[w + 1]};
      const unsigned x_high[2] = {of_x.high[w], of_x.high[w + 1]}, x_low[2] = {of_x.low[w], of_x.low[w + 1]};
      multiply_add<float>(low_sums[0], low, x_low);
      multiply_add<float>(low_sums[0], low, x_high);
      multiply_add<float>(low_sums[1], high, x_low);
      multiply_add<float>(high_sums, high, x_high);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] += high_sums[i];
  }
  __device__ __forceinline__ float value(int i) const { return sums[i] + (low_sums[0][i] + low_sums[1][i]); }
};

template <>
struct tile_sums<double> {
  double sums[2][2] = {};

  __device__ __forceinline__ void add(const words& first, const words& second, const words& x) {
#pragma unroll
    for (int w = 0; w < 4; w += 2) {
      const double b = number(x, w);
      multiply_add(sums[0], number(first, w), b);
      multiply_add(sums[1], number(second, w), b);
    }
  }
  __device__ __forceinline__ double value(int i) const { return sums[i / 2][i % 2]; }

 private:
  __device__ __forceinline__ static double number(const words& of, int w) {
    return __hiloint2double(static_cast<int>(of.lane[w + 1]), static_cast<int>(of.lane[w]));
  }
};

// One sum without tensor cores.
__device__ __noinline__ float dot(const float* x, const float* y, int k) {
  float sum = 0;
  for (int column = 0; column < k; ++column) sum = __fmaf_rn(x[column], y[column], sum);
  return sum;
}

// What a lane needs of a group.
struct group_of_lane {
  int columns[2];
  int window;
  unsigned masks;  // of two rows
  int2 positions;

  __device__ static group_of_lane load(const groups_view& A, int group) {
    const int quad = static_cast<int>(lane_id()) / 4, lane_of_quad = static_cast<int>(lane_id()) % 4;
    const std::int32_t* const columns = A.columns + std::int64_t{group} * group_columns;
    const std::int64_t of_lane = std::int64_t{group} * (window_rows / 2) + lane_of_quad;
    return {{__ldg(columns + quad), __ldg(columns + quad + 8)},
            __ldg(A.windows + group),
            __ldg(reinterpret_cast<const unsigned*>(A.masks) + of_lane),
            __ldg(reinterpret_cast<const int2*>(A.positions) + of_lane)};
  }
};

// Chunks of 64 bytes are held of each row of X at a time. `Whole`: k is as many columns, so that rows of X are loaded
// for each window only. What is needed of the next group, and with `by_turns` the next chunks of rows of Y, is under
// way while products are formed.
template <class Value, int Chunks, bool Whole>
__global__ void __launch_bounds__(threads_per_block) group_kernel(const group_product<Value> given) {
  constexpr bool by_turns = std::is_same_v<Value, float>;  // which has most to compute
  constexpr int most_loaded = by_turns ? 2 : 4, loaded = Chunks < most_loaded ? Chunks : most_loaded;  // of rows of Y
  constexpr int columns_of_chunk = chunk_columns<Value>;
  const int quad = static_cast<int>(lane_id()) / 4, lane_of_quad = static_cast<int>(lane_id()) % 4;
  const int warp = static_cast<int>(blockIdx.x * (threads_per_block / 32) + threadIdx.x / 32);
  const std::int64_t begin = std::int64_t{warp} * given.groups_per_warp;
  const int end = static_cast<int>(min(begin + given.groups_per_warp, std::int64_t{given.A.num_groups}));
  if (begin >= end) return;
  const bool is_one_pass = Whole || given.k <= Chunks * columns_of_chunk;
  const auto row_of_X = [&](int window, int i) {
    const unsigned row = min(window * window_rows + i, given.num_rows - 1);
    return reinterpret_cast<const char*>(given.X) + std::uint64_t{row} * given.X_stride;
  };
  int window_of_x = -1;
  words x[Chunks];
  group_of_lane next = group_of_lane::load(given.A, static_cast<int>(begin));
  for (int group = static_cast<int>(begin); group < end; ++group) {
    const group_of_lane now = next;
    if (group + 1 < end) next = group_of_lane::load(given.A, group + 1);
    const auto row_of_Y = [&](int half) {
      const auto column = static_cast<unsigned>(now.columns[half]);
      return reinterpret_cast<const char*>(given.Y) + std::uint64_t{column} * given.Y_stride;
    };
    const char* const Y[2] = {row_of_Y(0), row_of_Y(1)};
    tile_sums<Value> tile;
    for (int first = 0; first == 0 || (!is_one_pass && first < given.k); first += Chunks * columns_of_chunk) {
      const auto load_chunk = [&](const char* from, int chunk, words& to) {
        const int column = first + chunk * columns_of_chunk + lane_of_quad * lane_columns<Value>;
        if (Whole || column < given.k) {
          to = load<unsigned, 4>(reinterpret_cast<const unsigned*>(from + column * sizeof(Value)));
        } else {
          to = {};
        }
      };
      words y[1 + by_turns][2][loaded];
      const auto load_part = [&](int part, words(&to)[2][loaded]) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int chunk = 0; chunk < loaded; ++chunk) load_chunk(Y[half], part * loaded + chunk, to[half][chunk]);
        }
      };
      load_part(0, y[0]);
      if (!is_one_pass || now.window != window_of_x) {
        const char* const X = row_of_X(now.window, quad);
#pragma unroll
        for (int chunk = 0; chunk < Chunks; ++chunk) load_chunk(X, chunk, x[chunk]);
        window_of_x = now.window;
      }
#pragma unroll
      for (int part = 0; part < Chunks / loaded; ++part) {
        if (by_turns && part + 1 < Chunks / loaded) load_part(part + 1, y[(part + 1) % 2]);
        if (!by_turns && part > 0) load_part(part, y[0]);
        const auto& rows = y[by_turns ? part % 2 : 0];
#pragma unroll
        for (int chunk = 0; chunk < loaded; ++chunk) tile.add(rows[0][chunk], rows[1][chunk], x[part * loaded + chunk]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned mask = i == 0 ? now.masks & 0xffff : now.masks >> 16;
      Value* const out = given.out + (i == 0 ? now.positions.x : now.positions.y);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned bit = 1u << (quad + half * 8);
        if (!(mask & bit)) continue;
        Value value = tile.value(half * 2 + i);
        if constexpr (std::is_same_v<Value, float>) {
          if (!isfinite(value)) {  // parts may not have been
            value = dot(reinterpret_cast<const float*>(row_of_X(now.window, lane_of_quad * 2 + i)),
                        reinterpret_cast<const float*>(Y[half]), given.k);
          }
        }
        out[__popc(mask & (bit - 1))] = value;
      }
    }
  }
}

template <int Chunks, class Value>
void launch(const group_product<Value>& given, cudaStream_t stream) {
  const auto kernel =
      given.k == Chunks * chunk_columns<Value> ? group_kernel<Value, Chunks, true> : group_kernel<Value, Chunks, false>;
  const std::int64_t warps = (given.A.num_groups + given.groups_per_warp - 1) / given.groups_per_warp;
  kernel<<<blocks_for(warps * 32, threads_per_block), threads_per_block, 0, stream>>>(given);
  check_launch("group_kernel");
}

// Rows of X of up to 128 columns are held.
template <class Value>
void launch_for_columns(const group_product<Value>& given, cudaStream_t stream) {
  constexpr int columns = chunk_columns<Value>;
  if (given.k <= columns) return launch<1>(given, stream);
  if (given.k <= 2 * columns) return launch<2>(given, stream);
  if constexpr (columns < 32) {
    if (given.k <= 4 * columns) return launch<4>(given, stream);
    if constexpr (columns < 16) {
      if (given.k <= 8 * columns) return launch<8>(given, stream);
    }
  }
  launch<128 / columns>(given, stream);
}

// Whether products of this type take less time than without groups.
bool pays(const device_csr& pattern, std::int64_t num_groups, value_type dtype) {
  constexpr int slow = 32;  // float64 on GPUs for graphics
  if (dtype == value_type::float64 && device_attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio) >= slow)
    return false;
  return static_cast<double>(pattern.nnz()) >= fewest_in_group(dtype, pattern.nnz()) * static_cast<double>(num_groups);
}

class column_vectors_product final : public prepared_sampled_product {
 public:
  column_vectors_product(const device_csr& pattern, device_array<std::int32_t> words, int num_groups)
      : pattern_(pattern), words_(std::move(words)), num_groups_(num_groups) {}

  void run(const dense_view& X, const dense_view& Y, value_type dtype, void* out, CUstream_st* stream) override {
    const bool done =
        dispatch_device_type(dtype, [&](auto value) { return run_as<decltype(value)>(X, Y, out, stream); });
    if (!done) sampled_product_cuda(arrays_of(pattern_), pattern_.nnz(), X, Y, dtype, out, stream);
  }
  bool pays_for(value_type dtype) const override { return pays(pattern_, num_groups_, dtype); }
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
    if (num_groups_ == 0 || X.num_cols == 0 || X.num_cols % lane_columns<Value> != 0 || !fits(X) || !fits(Y)) {
      return false;
    }
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
    launch_for_columns(given, stream);
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

std::unique_ptr<prepared_sampled_product> prepare_vector_sampled_product(const device_csr& pattern,
                                                                         std::optional<value_type> dtype) {
  using namespace cuda;
  using product = sampled::column_vectors_product;
  const auto refuse = [&](const std::string& reason) -> std::unique_ptr<prepared_sampled_product> {
    if (dtype) return nullptr;
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
  if (dtype && !sampled::pays(pattern, num_groups, *dtype)) return nullptr;

  device_array<std::int32_t> words(num_groups * product::words_per_group, allocate_device_memory);
  sampled::group_columns_kernel<<<blocks, threads_per_merging_block, 0, stream>>>(
      A, begins, static_cast<int>(pattern.num_cols()), product::view(words.data(), num_groups));
  check_launch("group_columns_kernel");
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(stream));  // products may be enqueued on another one
  return std::make_unique<product>(pattern, std::move(words), static_cast<int>(num_groups));
}

}  // namespace warploom
