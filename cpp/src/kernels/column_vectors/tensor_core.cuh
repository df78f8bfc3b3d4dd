// SpMM on tensor cores, row-major B and C: float16, bfloat16, and float32 that is rounded to TF32; sums in float32.
//
// A warp takes a window of 8 rows, or a segment of its column vectors, and 16 vectors at a time: the instruction
// m16n8k16 multiplies 16 columns of B, transposed, with the 16 vectors, so that the sparse matrix is the operand of
// width 8 and no more than 8 rows need share a column. Which columns of B make up the 16 is free: with those that a
// lane reads at once, V neighbouring ones of four rows of B, rows of B go from memory to registers in vectors of up to
// 16 bytes, a row of C is written in the same way, and nothing passes through shared memory. In the words of the
// instruction, lane l has g = l / 4 and t = l % 4; it reads columns g V .. g V + V of vectors 2 t, 2 t + 1, 2 t + 8 and
// 2 t + 9, and ends up with the same columns of rows 2 t and 2 t + 1 of the window. Values are stored vector by vector,
// 16 bytes each; the instruction movmatrix gives every lane those of its row of the window.
//
// A window of 16 rows is two strips of 8: what a lane has read of B is multiplied with the values of both, and it holds
// twice as many sums.
//
// In TF32 the instruction is m16n8k8 and takes 8 vectors: a lane reads the same columns of vectors t and t + 4, and of
// their values, 32 bytes each, those of row g. The sums are where they are in half precision.
//
// Long windows are cut into segments like the rows of segmented CSR: each leaves its sums in a workspace, and the last
// to finish adds them in their order. Where they are many, another kernel adds them up, with a thread block for each
// window and tile of columns.
//
// Where rows of B do not begin on 16 bytes, they are copied first, if that pays, or else read value by value. Rows of C
// that do not are stored by way of shared memory.
//
// At least m rows of C and n rows of B once, 20 bytes a vector of 8 rows (in TF32 36) and 36 (68) one of 16; where rows
// of B miss the caches, each vector costs 2 k bytes more (4 k), where a kernel on CSR pays that for each nonzero.
//
// Device code only. tensor_core.cu has the kernels and their plan; the hybrid of vectors and rows (hybrid_vectors)
// calls the same functions.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/bsr/device_bsr.hpp"
#include "kernels/device/finish.cuh"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/tensor_core.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/segmented_csr/device_segments.hpp"

namespace warploom::cuda::column_vectors {

constexpr int threads_per_block = 128;
constexpr int strip_rows = 8;
constexpr int narrowest_tile = 32;  // columns
constexpr int widest_tile = 128;
template <class Value>
constexpr int vectors_at_once = sizeof(Value) == 2 ? 16 : 8;  // of one instruction
template <class Value>
constexpr int rows_per_lane = vectors_at_once<Value> / 4;  // of B
// In which V neighbouring values are held.
template <class Value, int V>
constexpr int num_words = V * static_cast<int>(sizeof(Value)) / 4;
static_assert(column_vector.rows == strip_rows && tall_column_vector.rows == 2 * strip_rows);

template <class Value>
struct window_product {
  cuda::segments_view<Value> A;  // segments of windows; `indices` and `data` are those of the vectors
  const std::int32_t* row_ids;   // null: the caller's order
  int num_rows;                  // of the windows
  int strips;                    // of 8 rows, in a window
  const Value* B;
  Value* C;
  std::int64_t ldb;
  std::int64_t ldc;
  int k;
};

// With what becomes of sums before they are stored.
template <class Value>
struct finishing_window_product : window_product<Value> {
  cuda::finishing_values<Value> by;
};

// The columns from `first` on.
template <class Value>
window_product<Value> from_column(window_product<Value> product, std::int64_t first) {
  product.B += first;
  product.C += first;
  return product;
}
template <class Value>
finishing_window_product<Value> from_column(finishing_window_product<Value> product, std::int64_t first) {
  product.B += first;
  product.C += first;
  if (product.by.bias != nullptr) product.by.bias += first;
  return product;
}

// Lane l has two values of row l / 4 of an 8 x 8 matrix, and gets those of column l / 4.
__device__ __forceinline__ unsigned transposed(unsigned two_values) {
  unsigned result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(two_values));
  return result;
}

// Nearest, ties away from zero; what rounds beyond the largest number is not finite.
__device__ __forceinline__ unsigned rounded_to_tf32(unsigned bits) {
#if __CUDA_ARCH__ >= 800
  unsigned result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(__uint_as_float(bits)));
  return result;
#else
  __trap();  // never launched there
  return bits;
#endif
}

// V neighbouring values. Without `Whole`, those before `count` only, one by one.
template <class Value, int V, bool Whole>
__device__ __forceinline__ void load_words(unsigned (&words)[num_words<Value, V>], const Value* from, int count) {
  if constexpr (Whole) {
    if (count <= 0) return;
    const auto loaded = cuda::load<unsigned, num_words<Value, V>>(reinterpret_cast<const unsigned*>(from));
#pragma unroll
    for (int i = 0; i < num_words<Value, V>; ++i) words[i] = loaded.lane[i];
  } else if constexpr (sizeof(Value) == 4) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (i < count) words[i] = __float_as_uint(__ldg(from + i));
    }
  } else {
    const auto* bits = reinterpret_cast<const unsigned short*>(from);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (i < count) words[i / 2] |= static_cast<unsigned>(__ldg(bits + i)) << (i % 2 * 16);
    }
  }
}

// How the loads of B and the stores of C move V neighbouring values: at once, or one by one, where C may have fewer.
enum class moved { at_once, loaded_at_once, one_by_one };

// A lane's sums of a strip: N times V columns, 8 V columns apart, of two rows.
template <int V, int N>
struct lane_sums {
  float c[N][V / 2][4] = {};

  // Column v of the n-th V columns, row 0 or 1.
  __device__ __forceinline__ float& at(int n, int v, int row) { return c[n][v / 2][v % 2 * 2 + row]; }

  static constexpr int fours = N * V / 2;
  __device__ __forceinline__ float4 four(int i) const {
    const float* const f = c[i / (V / 2)][i % (V / 2)];
    return make_float4(f[0], f[1], f[2], f[3]);
  }
  __device__ __forceinline__ void add_four(int i, const float4& more) {
    float* const f = c[i / (V / 2)][i % (V / 2)];
    f[0] += more.x;
    f[1] += more.y;
    f[2] += more.z;
    f[3] += more.w;
  }
};

// The first of a lane's V columns for each n, and the columns from there to the end of C.
template <int V, int N>
struct lane_columns {
  int first;
  int k;

  __device__ explicit lane_columns(int num_columns)
      : first(static_cast<int>(blockIdx.y) * 8 * V * N + static_cast<int>(cuda::lane_id() / 4) * V), k(num_columns) {}
  __device__ int begin(int n) const { return first + n * 8 * V; }
  __device__ int left(int n) const { return k - begin(n); }
};

// Which of the vectors of an instruction the i-th row of B of a lane belongs to.
template <class Value>
__device__ __forceinline__ int vector_of_row(int t, int i) {
  return sizeof(Value) == 2 ? 2 * t + i % 2 + i / 2 * 8 : t + 4 * i;
}

// What the lanes of a warp hold of U times the vectors of an instruction: lane l the column of vector l, from the
// beginning again where there are fewer; and of their values, of each of S strips rows 2 t and 2 t + 1 of vectors g and
// g + 8 of each 16, or in TF32 row g of vectors t and t + 4 of each 8. There is nothing past the end: columns are -1,
// values 0.
template <class Value, int U, int S>
struct loaded_vectors {
  static constexpr int count = U * vectors_at_once<Value>;
  static_assert(count <= 32, "a lane holds the column of one vector");
  int column;
  unsigned values[U][S][2];

  __device__ __forceinline__ void load_from(const cuda::segments_view<Value>& A, int begin, int first, int length) {
    constexpr int words_per_strip = num_words<Value, strip_rows>;
    constexpr int words_per_vector = S * words_per_strip;
    const int lane = static_cast<int>(cuda::lane_id());
    const int mine = first + lane % count;
    column = mine < length ? __ldg(A.indices + begin + mine) : -1;
    const auto* const words = reinterpret_cast<const unsigned*>(A.data) + std::int64_t{begin} * words_per_vector;
    const int vector_of_lane = sizeof(Value) == 2 ? lane / 4 : lane % 4;
    const int word_of_lane = sizeof(Value) == 2 ? lane % 4 : lane / 4;
#pragma unroll
    for (int u = 0; u < U; ++u) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int vector = first + u * vectors_at_once<Value> + i * vectors_at_once<Value> / 2 + vector_of_lane;
#pragma unroll
        for (int s = 0; s < S; ++s) {
          const int word = vector * words_per_vector + s * words_per_strip + word_of_lane;
          values[u][s][i] = vector < length ? __ldg(words + word) : 0u;
        }
      }
    }
  }
};

// Adds the products of the vectors of an instruction with V columns of B. `values` are as loaded_vectors has them.
template <class Value, int V, int N, int S>
__device__ __forceinline__ void multiply_add(lane_sums<V, N> (&sums)[S], const unsigned (&values)[S][2],
                                             const unsigned (&words)[rows_per_lane<Value>][N][num_words<Value, V>]) {
  unsigned b[S][2];
  if constexpr (sizeof(Value) == 2) {
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int i = 0; i < 2; ++i) b[s][i] = transposed(values[s][i]);
    }
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int tile = 0; tile < V / 2; ++tile) {
        // The lower halves of the words are a column of B, which is row g of the operand; the upper ones are row g + 8.
        const unsigned a[4] = {__byte_perm(words[0][n][tile], words[1][n][tile], 0x5410),
                               __byte_perm(words[0][n][tile], words[1][n][tile], 0x7632),
                               __byte_perm(words[2][n][tile], words[3][n][tile], 0x5410),
                               __byte_perm(words[2][n][tile], words[3][n][tile], 0x7632)};
#pragma unroll
        for (int s = 0; s < S; ++s) cuda::multiply_add<Value>(sums[s].c[n][tile], a, b[s]);
      }
    }
  } else {
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int i = 0; i < 2; ++i) b[s][i] = rounded_to_tf32(values[s][i]);
    }
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int tile = 0; tile < V / 2; ++tile) {
        const unsigned a[4] = {rounded_to_tf32(words[0][n][2 * tile]), rounded_to_tf32(words[0][n][2 * tile + 1]),
                               rounded_to_tf32(words[1][n][2 * tile]), rounded_to_tf32(words[1][n][2 * tile + 1])};
#pragma unroll
        for (int s = 0; s < S; ++s) cuda::multiply_add<Value>(sums[s].c[n][tile], a, b[s]);
      }
    }
  }
}

// Adds `length` vectors from `begin` on, those of U instructions at once: those that come next are loaded while rows of
// B are.
template <class Value, int V, int N, int S, int U, bool Whole>
__device__ __forceinline__ void accumulate(lane_sums<V, N> (&sums)[S], const window_product<Value>& product, int begin,
                                           int length, const lane_columns<V, N>& columns) {
  const int t = static_cast<int>(cuda::lane_id() % 4);
  loaded_vectors<Value, U, S> next;
  next.load_from(product.A, begin, 0, length);
  for (int first = 0; first < length; first += next.count) {
    const loaded_vectors<Value, U, S> vectors = next;
    int rows[U][rows_per_lane<Value>];  // of B
#pragma unroll
    for (int u = 0; u < U; ++u) {
#pragma unroll
      for (int i = 0; i < rows_per_lane<Value>; ++i) {
        rows[u][i] = cuda::from_lane(vectors.column, u * vectors_at_once<Value> + vector_of_row<Value>(t, i));
      }
    }
    unsigned words[U][rows_per_lane<Value>][N][num_words<Value, V>] = {};
#pragma unroll
    for (int u = 0; u < U; ++u) {
#pragma unroll
      for (int i = 0; i < rows_per_lane<Value>; ++i) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
          if (rows[u][i] < 0) continue;
          load_words<Value, V, Whole>(words[u][i][n], product.B + rows[u][i] * product.ldb + columns.begin(n),
                                      columns.left(n));
        }
      }
    }
    next.load_from(product.A, begin, first + next.count, length);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (first + u * vectors_at_once<Value> >= length) break;  // the same for the whole warp
      multiply_add<Value, V, N, S>(sums, vectors.values[u], words[u]);
    }
  }
}

// The row of C that a strip has at place `i`, or -1 past the end. Strips are numbered through all windows.
template <class Value>
__device__ __forceinline__ std::int64_t row_of_C(const window_product<Value>& product, int strip, int i) {
  const std::int64_t stored_row = std::int64_t{strip} * strip_rows + i;
  if (stored_row >= product.num_rows) return -1;
  return product.row_ids ? product.row_ids[stored_row] : stored_row;
}

template <class Value, int V, int N, bool Whole, class Product>
__device__ __forceinline__ void store(lane_sums<V, N>& sums, const Product& product, int strip,
                                      const lane_columns<V, N>& columns) {
  const int t = static_cast<int>(cuda::lane_id() % 4);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t row = row_of_C(product, strip, 2 * t + i);
    if (row < 0) continue;
    Value* const c = product.C + row * product.ldc;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      cuda::vector<Value, V> rounded;
      if constexpr (std::is_same_v<Product, window_product<Value>>) {
#pragma unroll
        for (int v = 0; v < V; ++v) rounded.lane[v] = cuda::narrow<Value>(sums.at(n, v, i));
      } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
          if (v >= columns.left(n)) continue;
          const int column = columns.begin(n) + v;
          rounded.lane[v] = cuda::narrow<Value>(product.by(sums.at(n, v, i), c + column, column));
        }
      }
      if constexpr (Whole) {
        if (columns.left(n) > 0) cuda::store_streaming<Value, V>(c + columns.begin(n), rounded);
      } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
          if (v < columns.left(n)) c[columns.begin(n) + v] = rounded.lane[v];
        }
      }
    }
  }
}

// The same by way of shared memory, so that neighbouring lanes store neighbouring columns. Called by whole warps.
template <class Value, int V, int N, class Product>
__device__ __forceinline__ void store_exchanged(lane_sums<V, N>& sums, const Product& product, int strip,
                                                const lane_columns<V, N>& columns) {
  constexpr int tile = 8 * V * N;
  __shared__ float exchanged[threads_per_block / 32][strip_rows][tile + 1];
  auto& rows = exchanged[threadIdx.x / 32];
  const int lane = static_cast<int>(cuda::lane_id());
  const int t = lane % 4;
  const int first = static_cast<int>(blockIdx.y) * tile;
  cuda::sync_warp();  // the strip before may still be read
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
      for (int i = 0; i < 2; ++i) rows[2 * t + i][columns.begin(n) - first + v] = sums.at(n, v, i);
    }
  }
  cuda::sync_warp();
  const int width = min(tile, product.k - first);
  for (int i = 0; i < strip_rows; ++i) {
    const std::int64_t row = row_of_C(product, strip, i);
    if (row < 0) return;
    Value* const c = product.C + row * product.ldc + first;
    for (int column = lane; column < width; column += 32) {
      if constexpr (std::is_same_v<Product, window_product<Value>>) {
        c[column] = cuda::narrow<Value>(rows[i][column]);
      } else {
        c[column] = cuda::narrow<Value>(product.by(rows[i][column], c + column, first + column));
      }
    }
  }
}

// The sums of a warp in a slot of the workspace, as its lanes hold them: 16 bytes of each lane next to each other.
template <int V, int N, int S>
struct slot_sums {
  static constexpr int fours = lane_sums<V, N>::fours;

  float4* of_lane;

  // Those of this tile of columns.
  __device__ explicit slot_sums(float* slot)
      : of_lane(reinterpret_cast<float4*>(slot) + blockIdx.y * (S * fours * 32) + cuda::lane_id()) {}
  __device__ void store(const lane_sums<V, N> (&sums)[S]) const {
#pragma unroll
    for (int i = 0; i < S * fours; ++i) __stcg(of_lane + i * 32, sums[i / fours].four(i % fours));
  }
  __device__ void add_to(lane_sums<V, N> (&sums)[S]) const {
    float4 loaded[S * fours];
#pragma unroll
    for (int i = 0; i < S * fours; ++i) loaded[i] = __ldcg(of_lane + i * 32);
#pragma unroll
    for (int i = 0; i < S * fours; ++i) sums[i / fours].add_four(i % fours, loaded[i]);
  }
};

// Of the tiles that a product with `columns` columns has.
constexpr int tile_columns(std::int64_t columns) {
  return columns > 64 ? widest_tile : columns > 32 ? 64 : narrowest_tile;
}

// Columns of the workspace that a plan for `columns` columns needs: whole tiles.
inline std::int64_t stored_columns(std::int64_t columns) {
  const std::int64_t tile = tile_columns(columns);
  return (columns + tile - 1) / tile * tile;
}

// Leaves the sums of one segment of a cut window and, if all the others are there, gets their total. Called by whole
// warps.
template <class Value, int V, int N, int S>
__device__ bool add_segment(lane_sums<V, N> (&sums)[S], const window_product<Value>& product, int partial) {
  using in_slot = slot_sums<V, N, S>;
  const cuda::segments_view<Value>& A = product.A;
  const cuda::cut_row<Value> pieces(A, true, partial, blockIdx.y, gridDim.y);
  in_slot(A.slot(partial)).store(sums);
  if (!pieces.arrives_last(true, 32)) return false;
#pragma unroll
  for (int s = 0; s < S; ++s) sums[s] = {};
  for (int piece = 0; piece < pieces.slots.count; ++piece) {
    in_slot(A.slot(pieces.slots.first + piece)).add_to(sums);
  }
  pieces.reset(32);
  return true;
}

template <class Value, int V, int N, int S, moved Moved, class Product>
__device__ __forceinline__ void store_window(lane_sums<V, N> (&sums)[S], const Product& product, int window,
                                             const lane_columns<V, N>& columns) {
#pragma unroll
  for (int s = 0; s < S; ++s) {
    if constexpr (Moved == moved::loaded_at_once) {
      store_exchanged<Value, V, N>(sums[s], product, window * S + s, columns);
    } else {
      store<Value, V, N, Moved == moved::at_once>(sums[s], product, window * S + s, columns);
    }
  }
}

// What the kernel of windows of S strips does, as part of another kernel too: segment `i`. Called by whole warps, whose
// thread block has `threads_per_block` threads.
template <class Value, int V, int N, int S, moved Moved, class Product>
__device__ __forceinline__ void multiply_window(const Product& product, unsigned i) {
  if (i >= product.A.num_segments) return;  // whole warps
  const lane_columns<V, N> columns(product.k);
  const int4 segment = __ldg(product.A.segments + i);  // window, first vector, vectors, partial sum
  lane_sums<V, N> sums[S];
  constexpr int at_once = N == 1 ? 2 : 1;  // enough loads of B in flight, and registers for enough warps
  accumulate<Value, V, N, S, at_once, Moved != moved::one_by_one>(sums, product, segment.y, segment.z, columns);
  if (segment.w >= 0 && !add_segment(sums, product, segment.w)) return;
  store_window<Value, V, N, S, Moved>(sums, product, segment.x, columns);
}

// Segments of a window that a warp adds up itself; see long_windows.cuh.
constexpr int most_pieces_of_warp(std::int64_t columns) { return 8 * widest_tile / tile_columns(columns); }

template <class Value>
constexpr int widest_vector = 16 / sizeof(Value);

template <class Value>
bool loads_vectors(const window_product<Value>& product, int width) {
  return reinterpret_cast<std::uintptr_t>(product.B) % (width * sizeof(Value)) == 0 && product.ldb % width == 0;
}
template <class Value>
bool stores_vectors(const window_product<Value>& product, int width) {
  return reinterpret_cast<std::uintptr_t>(product.C) % (width * sizeof(Value)) == 0 &&
         (product.ldc | product.k) % width == 0;
}
template <class Value>
bool takes_vectors(const window_product<Value>& product, int width) {
  return loads_vectors(product, width) && stores_vectors(product, width);
}

// Windows in GPU memory, cut into segments, with the workspace of a plan for so many columns.
template <class Value>
class device_windows {
 public:
  // `longest_row` is at least as long as every row. `row_ids` may be null.
  device_windows(device_bsr vectors, device_permutation row_ids, std::int64_t longest_row, std::int64_t columns,
                 int segment_length, cudaStream_t stream, const device_allocator& allocate)
      : vectors_(std::move(vectors)),
        row_ids_(std::move(row_ids)),
        columns_(static_cast<int>(columns)),
        most_pieces_(most_pieces_of_warp(columns)),
        segments_({vectors_.indptr(), vectors_.indices(), vectors_.num_block_rows(), vectors_.num_cols(),
                   vectors_.block_size() * longest_row},
                  nullptr, {.segment_length = segment_length, .longest_first = true, .most_pieces = most_pieces_},
                  stream, allocate),
        workspace_(segments_.split_of_partial.size() * vectors_.block_size() * stored_columns(columns_), allocate),
        arrived_(segments_.splits.size() * ((columns_ + narrowest_tile - 1) / narrowest_tile), allocate) {
    if (arrived_.size() > 0) fill_device(arrived_.data(), 0, arrived_.bytes(), stream);
  }

  std::int64_t num_vectors() const { return vectors_.num_blocks(); }
  std::int64_t num_segments() const { return static_cast<std::int64_t>(segments_.segments.size()); }
  value_array all_values() const { return vectors_.all_values(); }
  std::size_t bytes() const {
    const std::size_t ids = row_ids_ ? vectors_.num_rows() * sizeof(std::int32_t) : 0;
    return vectors_.bytes() + ids + segments_.bytes() + workspace_.bytes() + arrived_.bytes();
  }

  // The workspace is as wide as the plan, and a grid has at most 65,535 tiles: what is wider is computed by panels.
  std::int64_t widest_panel() const { return std::min<std::int64_t>(columns_, std::int64_t{65535} * narrowest_tile); }
  // The columns from `first` on, as many as a panel has.
  window_product<Value> panel_of(const dense_view& B, const dense_view& C, std::int64_t first) const {
    return {view(),
            row_ids_.get(),
            static_cast<int>(vectors_.num_rows()),
            vectors_.block_size() / strip_rows,
            static_cast<const Value*>(B.data) + first,
            static_cast<Value*>(C.data) + first,
            B.leading_dimension,
            C.leading_dimension,
            static_cast<int>(std::min(widest_panel(), C.num_cols - first))};
  }

 private:
  segments_view<Value> view() const {
    return {static_cast<unsigned>(num_segments()),
            segments_.segments.data(),
            vectors_.indices(),
            vectors_.template values<Value>(),
            segments_.split_of_partial.data(),
            segments_.splits.data(),
            workspace_.data(),
            arrived_.data(),
            static_cast<int>(vectors_.block_size() * stored_columns(columns_)),
            most_pieces_,
            segments_.long_rows.data(),
            segments_.num_long_rows};
  }

  device_bsr vectors_;
  device_permutation row_ids_;
  int columns_;
  int most_pieces_;
  segment_list segments_;
  device_array<float> workspace_;
  device_array<unsigned> arrived_;
};

// In tensor_core.cu, for each type of values: enqueues the product of one panel, however its operands are aligned.
template <class Value>
void multiply_windows(const window_product<Value>& product, std::int64_t num_vectors, std::int64_t rows_of_B,
                      cudaStream_t stream);

// Why the GPU that is current cannot do this, or "".
inline std::string tensor_core_reason() {
  return device_attribute(cudaDevAttrComputeCapabilityMajor) < 8 ? "needs a GPU of compute capability 8.0 or newer"
                                                                 : "";
}

}  // namespace warploom::cuda::column_vectors
