// SpMV through compressed-sell: a warp for each segment of a slice, a lane for the rows that lie in its places. All
// loads of a batch of slots, values and codes, are issued before the first of them is needed; what x is read for is
// known one latency later. Parts of a slice meet in shared memory and are added in their order.
#include <algorithm>
#include <bit>

#include "kernels/cuda/device/values.cuh"
#include "kernels/cuda/device/vector.cuh"
#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/compressed_sell.hpp"
#include "kernels/spmv_plan.hpp"

namespace warploom {
namespace {

constexpr int warps_per_block = 4;
constexpr int most_warps_per_block = 8;  // for 8 parts

static_assert(sizeof(sell_segment) == sizeof(int4));

// The matrix is read once: what is loaded of it should leave the caches to x.
template <class T, int Width>
__device__ __forceinline__ cuda::vector<T, Width> load_once(const T* from) {
  constexpr int bytes = sizeof(T) * Width;
  cuda::vector<T, Width> result;
  if constexpr (bytes == 1) {
    *reinterpret_cast<unsigned char*>(&result) = __ldcs(reinterpret_cast<const unsigned char*>(from));
  } else if constexpr (bytes == 2) {
    *reinterpret_cast<unsigned short*>(&result) = __ldcs(reinterpret_cast<const unsigned short*>(from));
  } else if constexpr (bytes == 4) {
    *reinterpret_cast<unsigned*>(&result) = __ldcs(reinterpret_cast<const unsigned*>(from));
  } else if constexpr (bytes == 8) {
    *reinterpret_cast<uint2*>(&result) = __ldcs(reinterpret_cast<const uint2*>(from));
  } else {
    static_assert(bytes % 16 == 0);
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i) {
      reinterpret_cast<uint4*>(&result)[i] = __ldcs(reinterpret_cast<const uint4*>(from) + i);
    }
  }
  return result;
}

// How far the bits of a value without an entry jump.
__device__ __forceinline__ int jump_of(__half value) { return __half_as_ushort(value); }
__device__ __forceinline__ int jump_of(float value) { return __float_as_int(value); }
__device__ __forceinline__ int jump_of(double value) { return __double2loint(value); }

// Slots whose loads are in flight together: 16 places a lane, half as many of 8 bytes. A power of two, at most 8.
template <class Value, int R>
constexpr int batch_slots = (sizeof(Value) == 8 ? 8 : 16) / R < 8 ? (sizeof(Value) == 8 ? 8 : 16) / R : 8;

// What one lane does with its R rows of a segment: row r is at position 32 r + lane of the slice. Everything but
// `lane`, and what is loaded by it, is the same for the whole warp.
template <class Value, int R>
struct lane_rows {
  using sum_type = cuda::sum_type_t<Value>;
  static constexpr int height = sell_lanes * R;
  static constexpr int batch = batch_slots<Value, R>;

  const Value* __restrict__ x;
  const Value* values;         // of the segment, those of the lane first
  const unsigned char* codes;  // of the segment, from its slot bases on where there are any
  int num_slots;
  int lane;
  sum_type sums[R] = {};

  __device__ __forceinline__ lane_rows(const Value* x, const Value* values, const unsigned char* codes, int num_slots,
                                       int lane)
      : x(x), values(values + lane * R), codes(codes), num_slots(num_slots), lane(lane) {}

  __device__ __forceinline__ const unsigned char* after_slot_bases() const {
    return codes + (num_slots + sell_slot_group - 1) / sell_slot_group * sell_slot_group * sizeof(int);
  }

  // The rest of the last batch is not loaded: its places count as places without an entry.
  __device__ __forceinline__ void load_values(int slot, cuda::vector<Value, R> (&loaded)[batch]) const {
#pragma unroll
    for (int u = 0; u < batch; ++u) {
      if (slot + u < num_slots) {
        loaded[u] = load_once<Value, R>(values + std::int64_t{slot + u} * height);
      } else {
        loaded[u] = cuda::vector<Value, R>{};
      }
    }
  }

  template <class Code>
  __device__ __forceinline__ void load_codes(const Code* from, int slot, cuda::vector<Code, R> (&loaded)[batch]) const {
#pragma unroll
    for (int u = 0; u < batch; ++u) {
      if (slot + u < num_slots) {
        loaded[u] = load_once<Code, R>(from + std::int64_t{slot + u} * height + lane * R);
      } else {
#pragma unroll
        for (int r = 0; r < R; ++r) loaded[u].lane[r] = Code(-1);
      }
    }
  }

  // Slot bases are padded to whole groups, so a batch can always be loaded whole.
  __device__ __forceinline__ void load_slot_bases(int slot, int (&bases)[batch]) const {
    constexpr int width = batch < 4 ? batch : 4;
    const int* from = reinterpret_cast<const int*>(codes) + slot;
#pragma unroll
    for (int u = 0; u < batch; u += width) {
      const auto loaded = cuda::load<int, width>(from + u);
#pragma unroll
      for (int i = 0; i < width; ++i) bases[u + i] = loaded.lane[i];
    }
  }

  // A place without an entry adds 0 * 0, whatever x holds. The barrier keeps the compiler from moving loads of the
  // matrix behind those of x, which have to wait for columns.
  __device__ __forceinline__ void multiply(const cuda::vector<Value, R> (&loaded)[batch],
                                           const int (&columns)[batch][R], const bool (&present)[batch][R]) {
    __syncwarp();
    Value x_values[batch][R];
#pragma unroll
    for (int u = 0; u < batch; ++u) {
#pragma unroll
      for (int r = 0; r < R; ++r) x_values[u][r] = present[u][r] ? __ldg(x + columns[u][r]) : Value(0);
    }
#pragma unroll
    for (int u = 0; u < batch; ++u) {
#pragma unroll
      for (int r = 0; r < R; ++r) sums[r] += cuda::widen(loaded[u].lane[r]) * cuda::widen(x_values[u][r]);
    }
  }

  template <bool Full>
  __device__ __forceinline__ void diagonals() {
    const unsigned char* present_bits = after_slot_bases() + lane * R;
    for (int slot = 0; slot < num_slots; slot += batch) {
      cuda::vector<Value, R> loaded[batch];
      load_values(slot, loaded);
      int bases[batch];
      load_slot_bases(slot, bases);
      cuda::vector<unsigned char, R> bits;
      if constexpr (!Full) {
        bits = *reinterpret_cast<const cuda::vector<unsigned char, R>*>(present_bits + slot / 8 * height);
      }
      int columns[batch][R];
      bool present[batch][R];
#pragma unroll
      for (int u = 0; u < batch; ++u) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          columns[u][r] = bases[u] + r * sell_lanes + lane;
          present[u][r] = Full ? slot + u < num_slots : (bits.lane[r] >> (slot % 8 + u) & 1) != 0;
        }
      }
      multiply(loaded, columns, present);
    }
  }

  // Codes are offsets from the base of their slot, or all from `segment_base`.
  template <bool SlotBases, class Code>
  __device__ __forceinline__ void offsets(int segment_base) {
    const auto* from = reinterpret_cast<const Code*>(SlotBases ? after_slot_bases() : codes);
    for (int slot = 0; slot < num_slots; slot += batch) {
      cuda::vector<Code, R> offset[batch];
      load_codes(from, slot, offset);
      int bases[batch];
      if constexpr (SlotBases) load_slot_bases(slot, bases);
      cuda::vector<Value, R> loaded[batch];
      load_values(slot, loaded);
      int columns[batch][R];
      bool present[batch][R];
#pragma unroll
      for (int u = 0; u < batch; ++u) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          columns[u][r] = (SlotBases ? bases[u] : segment_base) + static_cast<int>(offset[u].lane[r]);
          present[u][r] = offset[u].lane[r] != Code(-1);
        }
      }
      multiply(loaded, columns, present);
    }
  }

  template <class Code>
  __device__ __forceinline__ void deltas(int segment_base) {
    const auto* from = reinterpret_cast<const Code*>(codes);
    int column[R];
#pragma unroll
    for (int r = 0; r < R; ++r) column[r] = segment_base;
    for (int slot = 0; slot < num_slots; slot += batch) {
      cuda::vector<Code, R> delta[batch];
      load_codes(from, slot, delta);
      cuda::vector<Value, R> loaded[batch];
      load_values(slot, loaded);
      int columns[batch][R];
      bool present[batch][R];
#pragma unroll
      for (int u = 0; u < batch; ++u) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          present[u][r] = delta[u].lane[r] != Code(-1);
          column[r] += present[u][r] ? static_cast<int>(delta[u].lane[r]) : jump_of(loaded[u].lane[r]);
          columns[u][r] = column[r];
          if (!present[u][r]) loaded[u].lane[r] = Value(0);  // the bits of a jump may be NaN
        }
      }
      multiply(loaded, columns, present);
    }
  }

  __device__ __forceinline__ void multiply_segment(sell_encoding encoding, int base) {
    switch (encoding) {
      case sell_encoding::full_diagonal:
        return diagonals<true>();
      case sell_encoding::diagonal:
        return diagonals<false>();
      case sell_encoding::slot8:
        return offsets<true, unsigned char>(0);
      case sell_encoding::slice16:
        return offsets<false, unsigned short>(base);
      case sell_encoding::slot16:
        return offsets<true, unsigned short>(0);
      case sell_encoding::delta8:
        return deltas<unsigned char>(base);
      case sell_encoding::delta16:
        return deltas<unsigned short>(base);
      case sell_encoding::plain:
        return offsets<false, int>(0);
    }
  }
};

// Gives the warp of a slice's first part the sums of all of them. `partial` has R * 32 sums for each warp; the parts of
// a slice are neighbouring warps of one block. All threads of the block take part.
template <int R, class Sum>
__device__ __forceinline__ void add_parts(Sum (&sums)[R], Sum* partial, int parts, int warp, int lane) {
#pragma unroll
  for (int r = 0; r < R; ++r) partial[(warp * R + r) * sell_lanes + lane] = sums[r];
  __syncthreads();
  if (warp % parts != 0) return;
  for (int part = 1; part < parts; ++part) {
#pragma unroll
    for (int r = 0; r < R; ++r) sums[r] += partial[((warp + part) * R + r) * sell_lanes + lane];
  }
}

extern __shared__ double shared_sums[];  // of a block whose slices have several parts

// Every warp multiplies `segments_per_warp` consecutive segments; one where a slice has several parts, of which there
// are 2^log2_parts.
template <class Value, int R>
__global__ void __launch_bounds__(most_warps_per_block* sell_lanes)
    compressed_sell_vector_kernel(unsigned num_rows, unsigned num_segments, unsigned segments_per_warp, int log2_parts,
                                  const int4* __restrict__ segments, const unsigned char* __restrict__ indices,
                                  const Value* __restrict__ values, const std::int32_t* __restrict__ row_ids,
                                  const Value* __restrict__ x, Value* __restrict__ y) {
  using rows_type = lane_rows<Value, R>;
  const int warp = threadIdx.x / sell_lanes;
  const int lane = threadIdx.x % sell_lanes;
  const unsigned first = (blockIdx.x * (blockDim.x / sell_lanes) + warp) * segments_per_warp;
  // Past the last segment: one without slots, of rows that do not exist.
  const auto describe = [&](unsigned s) { return s < num_segments ? __ldg(segments + s) : make_int4(0, 0, 0, 0); };
  int4 next = describe(first);
  for (unsigned segment = first; segment < first + segments_per_warp; ++segment) {
    const int4 description = next;
    if (segment + 1 < first + segments_per_warp) next = describe(segment + 1);
    const auto slots_and_encoding = static_cast<unsigned>(description.y);
    rows_type rows(x, values + std::int64_t{description.x} * rows_type::height,
                   indices + static_cast<std::size_t>(static_cast<unsigned>(description.z)) * sell_index_unit,
                   static_cast<int>(slots_and_encoding >> 3), lane);
    rows.multiply_segment(static_cast<sell_encoding>(slots_and_encoding & 7u), description.w);
    if (log2_parts > 0) {
      add_parts(rows.sums, reinterpret_cast<typename rows_type::sum_type*>(shared_sums), 1 << log2_parts, warp, lane);
      if (warp & ((1 << log2_parts) - 1)) return;
    }
    const std::uint64_t first_row = std::uint64_t{segment >> log2_parts} * rows_type::height;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const std::uint64_t row = first_row + r * sell_lanes + lane;
      if (row < num_rows) y[row_ids ? row_ids[row] : row] = cuda::narrow<Value>(rows.sums[r]);
    }
  }
}

// Segments in a row hide the latency of a segment's description, once there are enough of them for every warp that the
// GPU can hold, several times over.
unsigned choose_segments_per_warp(std::size_t num_segments, int parts) {
  constexpr std::size_t warps_per_multiprocessor = 32;
  constexpr std::size_t rounds = 8;
  if (parts > 1) return 1;
  const std::size_t warps = cuda::device_attribute(cudaDevAttrMultiProcessorCount) * warps_per_multiprocessor;
  return static_cast<unsigned>(std::clamp<std::size_t>(num_segments / (warps * rounds), 1, 4));
}

template <class Value, int R>
class compressed_sell_vector_plan final : public spmv_plan {
 public:
  compressed_sell_vector_plan(const compressed_sell_matrix& matrix, const device_allocator& allocate)
      : num_rows_(static_cast<unsigned>(matrix.num_rows)),
        parts_(matrix.options.parts),
        segments_per_warp_(choose_segments_per_warp(matrix.segments.size(), parts_)),
        segments_(cuda::upload(matrix.segments.data(), matrix.segments.size(), allocate)),
        indices_(cuda::upload(matrix.indices.data(), matrix.indices.size(), allocate)),
        data_(cuda::upload(matrix.data.data(), matrix.data.size(), allocate)),
        row_ids_(cuda::upload(matrix.row_ids.data(), matrix.row_ids.size(), allocate)) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    if (num_rows_ == 0) return;
    const int warps = std::max(parts_, warps_per_block);
    const auto num_segments = static_cast<unsigned>(segments_.size());
    const std::uint64_t per_block = std::uint64_t{segments_per_warp_} * warps;
    const auto blocks = static_cast<unsigned>((num_segments + per_block - 1) / per_block);
    const std::size_t shared = parts_ > 1 ? warps * sell_lanes * R * sizeof(cuda::sum_type_t<Value>) : 0;
    compressed_sell_vector_kernel<Value, R><<<blocks, warps * sell_lanes, shared, stream>>>(
        num_rows_, num_segments, segments_per_warp_, std::countr_zero(static_cast<unsigned>(parts_)),
        reinterpret_cast<const int4*>(segments_.data()), reinterpret_cast<const unsigned char*>(indices_.data()),
        reinterpret_cast<const Value*>(data_.data()), row_ids_.data(), static_cast<const Value*>(x),
        static_cast<Value*>(y));
    cuda::check_launch("compressed_sell_vector_kernel");
  }

  std::size_t bytes() const override { return segments_.bytes() + indices_.bytes() + data_.bytes() + row_ids_.bytes(); }

 private:
  unsigned num_rows_;
  int parts_;
  unsigned segments_per_warp_;
  cuda::device_array<sell_segment> segments_;
  cuda::device_array<std::byte> indices_;
  cuda::device_array<std::byte> data_;
  cuda::device_array<std::int32_t> row_ids_;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_compressed_sell_vector(const csr_view& matrix,
                                                                  const product_request& request,
                                                                  const device_allocator& allocate) {
  const compressed_sell_matrix stored = to_compressed_sell(matrix, compressed_sell_options_of(request));
  return cuda::dispatch_device_type(matrix.dtype, [&](auto value) -> std::unique_ptr<product_plan> {
    using device_value = decltype(value);
    switch (stored.options.rows_per_lane) {
      case 1:
        return std::make_unique<compressed_sell_vector_plan<device_value, 1>>(stored, allocate);
      case 2:
        return std::make_unique<compressed_sell_vector_plan<device_value, 2>>(stored, allocate);
      default:
        return std::make_unique<compressed_sell_vector_plan<device_value, 4>>(stored, allocate);
    }
  });
}

}  // namespace warploom
