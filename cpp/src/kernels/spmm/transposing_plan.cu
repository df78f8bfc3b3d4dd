#include <algorithm>
#include <type_traits>

#include "device/runtime.hpp"
#include "kernels/spmm/transposing_plan.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads = 256;
constexpr int values_per_thread = 8;
constexpr int values_per_tile = threads * values_per_thread;

enum class direction { to_row_major, to_column_major };

// The same k columns in both orders; the side that is written is not const.
template <class Value, direction towards>
struct both_orders {
  static constexpr bool to_rows = towards == direction::to_row_major;
  using column_major_pointer = std::conditional_t<to_rows, const Value*, Value*>;
  using row_major_pointer = std::conditional_t<to_rows, Value*, const Value*>;

  column_major_pointer by_columns;
  std::int64_t ld_columns;
  row_major_pointer by_rows;
  std::int64_t ld_rows;
  std::int64_t num_rows;
  std::int64_t k;
};

// Between the columns of a tile in shared memory, so that neither direction has bank conflicts.
template <class Value, int Width>
constexpr int padding = std::max(1, 128 / static_cast<int>(sizeof(Value)) / Width);

// A thread block copies a tile of `Width` columns through shared memory. The tile is as tall as its threads can copy
// with eight values each, all of which are under way at once: narrow operands have taller tiles, and in both orders
// whole sectors are read and written.
template <class Value, int Width, direction towards>
__global__ void __launch_bounds__(threads)
    transpose_kernel(const both_orders<Value, towards> copied, const unsigned tiles_across) {
  constexpr int height = values_per_tile / Width;
  __shared__ Value staged[Width][height + padding<Value, Width>];
  // Neighbouring blocks complete rows.
  const std::int64_t first_column = std::int64_t{blockIdx.x % tiles_across} * Width;
  const std::int64_t first_row = std::int64_t{blockIdx.x / tiles_across} * height;
  const int columns = static_cast<int>(min(std::int64_t{Width}, copied.k - first_column));
  const int rows = static_cast<int>(min(std::int64_t{height}, copied.num_rows - first_row));
  const auto by_columns = copied.by_columns + first_column * copied.ld_columns + first_row;
  const auto by_rows = copied.by_rows + first_row * copied.ld_rows + first_column;

  // visit(column, row, i): the i-th value of this thread, of those that exist.
  const auto along_columns = [&](auto visit) {
#pragma unroll
    for (int i = 0; i < values_per_thread; ++i) {
      const int at = i * threads + static_cast<int>(threadIdx.x);
      if (at / height < columns && at % height < rows) visit(at / height, at % height, i);
    }
  };
  const auto along_rows = [&](auto visit) {
#pragma unroll
    for (int i = 0; i < values_per_thread; ++i) {
      const int at = i * threads + static_cast<int>(threadIdx.x);
      if (at % Width < columns && at / Width < rows) visit(at % Width, at / Width, i);
    }
  };

  Value values[values_per_thread];
  if constexpr (towards == direction::to_row_major) {
    along_columns([&](int c, int r, int i) { values[i] = __ldcs(by_columns + c * copied.ld_columns + r); });
    along_columns([&](int c, int r, int i) { staged[c][r] = values[i]; });
    __syncthreads();
    along_rows([&](int c, int r, int) { by_rows[r * copied.ld_rows + c] = staged[c][r]; });
  } else {
    along_rows([&](int c, int r, int i) { values[i] = __ldcs(by_rows + r * copied.ld_rows + c); });
    along_rows([&](int c, int r, int i) { staged[c][r] = values[i]; });
    __syncthreads();
    along_columns([&](int c, int r, int) { by_columns[c * copied.ld_columns + r] = staged[c][r]; });
  }
}

template <int Width, class Value, direction towards>
void transpose_tiles(const both_orders<Value, towards>& copied, cudaStream_t stream) {
  constexpr int height = values_per_tile / Width;
  const std::int64_t across = (copied.k + Width - 1) / Width;
  const std::int64_t down = (copied.num_rows + height - 1) / height;
  transpose_kernel<Value, Width>
      <<<static_cast<unsigned>(across * down), threads, 0, stream>>>(copied, static_cast<unsigned>(across));
  check_launch("transpose");
}

template <class Value, direction towards>
void transpose(const both_orders<Value, towards>& copied, cudaStream_t stream) {
  if (copied.num_rows == 0 || copied.k == 0) return;
  if (copied.k <= 8) return transpose_tiles<8>(copied, stream);
  if (copied.k <= 16) return transpose_tiles<16>(copied, stream);
  transpose_tiles<32>(copied, stream);
}

// `Value`: an unsigned integer of the size of the values, which are only moved.
template <class Value>
class transposing_plan final : public product_plan {
 public:
  transposing_plan(std::unique_ptr<product_plan> inner, const device_csr& matrix, std::int64_t k,
                   const device_allocator& allocate)
      : inner_(std::move(inner)),
        columns_(k),
        dtype_(matrix.dtype()),
        padded_(padded_columns(k, dtype_)),
        B_(matrix.num_cols() * padded_, allocate),
        C_(matrix.num_rows() * padded_, allocate) {
    // The columns between k and `padded_` are never copied in: they are computed from these zeros and never copied out.
    fill_device(B_.data(), 0, B_.bytes(), matrix.stream());
  }

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0) return;
    for (std::int64_t first = 0; first < C.num_cols; first += columns_) {
      const std::int64_t k = std::min(columns_, C.num_cols - first);
      const std::int64_t padded = padded_columns(k, dtype_);
      const Value* b = static_cast<const Value*>(B.data) + first * B.leading_dimension;
      Value* c = static_cast<Value*>(C.data) + first * C.leading_dimension;
      transpose(both_orders<Value, direction::to_row_major>{b, B.leading_dimension, B_.data(), padded, B.num_rows, k},
                stream);
      inner_->run({B_.data(), B.num_rows, padded, padded}, {C_.data(), C.num_rows, padded, padded}, stream);
      transpose(
          both_orders<Value, direction::to_column_major>{c, C.leading_dimension, C_.data(), padded, C.num_rows, k},
          stream);
    }
  }

  std::size_t bytes() const override { return inner_->bytes() + B_.bytes() + C_.bytes(); }
  std::vector<value_array> value_arrays() override { return inner_->value_arrays(); }

 private:
  std::unique_ptr<product_plan> inner_;
  std::int64_t columns_;
  value_type dtype_;
  std::int64_t padded_;
  device_array<Value> B_;
  device_array<Value> C_;
};

}  // namespace

std::unique_ptr<product_plan> make_transposing_plan(std::unique_ptr<product_plan> inner, const device_csr& matrix,
                                                    std::int64_t k, const device_allocator& allocate) {
  return dispatch_bits(matrix.dtype(), [&](auto bits) -> std::unique_ptr<product_plan> {
    return std::make_unique<transposing_plan<decltype(bits)>>(std::move(inner), matrix, k, allocate);
  });
}

}  // namespace warploom::cuda
