// SpMV through compressed-sell: a warp for each segment of a slice, a lane for the rows that lie in its places. All
// loads of a batch of slots, values and codes, are issued before the first of them is needed; the columns of x are
// known one latency later. The partial sums of the parts of a slice are added in shared memory, in their order.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "device/cuda_function.hpp"
#include "kernels/compressed_sell/device_compressed_sell.hpp"
#include "kernels/compressed_sell/options.hpp"
#include "kernels/description.hpp"
#include "kernels/device/finish.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "kernels/finishing.hpp"
#include "kernels/spmv_plan.hpp"
#include "warploom/formats/format.hpp"

namespace warploom {
namespace {

constexpr int warps_per_block = 4;
constexpr int max_warps_per_block = 8;  // for 8 parts
constexpr int min_blocks = 4;           // of that size on a multiprocessor: leaves a thread 64 registers

static_assert(sizeof(sell_segment) == sizeof(int4));

// What a lane loads of one slot: R adjacent places of type T. They stay in the registers they were loaded to until
// `get` takes one out: unpacking them earlier would make the warp wait before its other loads are in flight.
template <class T, int R>
struct packed {
  static constexpr int bytes = sizeof(T) * R;
  unsigned words[(bytes + 3) / 4];

  // The matrix is read once: its loads should leave the caches to x.
  __device__ __forceinline__ void load_once(const T* from) {
    if constexpr (bytes == 1) {
      words[0] = __ldcs(reinterpret_cast<const unsigned char*>(from));
    } else if constexpr (bytes == 2) {
      words[0] = __ldcs(reinterpret_cast<const unsigned short*>(from));
    } else if constexpr (bytes == 4) {
      words[0] = __ldcs(reinterpret_cast<const unsigned*>(from));
    } else if constexpr (bytes == 8) {
      const uint2 loaded = __ldcs(reinterpret_cast<const uint2*>(from));
      words[0] = loaded.x;
      words[1] = loaded.y;
    } else {
      static_assert(bytes % 16 == 0);
#pragma unroll
      for (int i = 0; i < bytes / 16; ++i) {
        const uint4 loaded = __ldcs(reinterpret_cast<const uint4*>(from) + i);
        words[4 * i] = loaded.x;
        words[4 * i + 1] = loaded.y;
        words[4 * i + 2] = loaded.z;
        words[4 * i + 3] = loaded.w;
      }
    }
  }

  __device__ __forceinline__ void fill(unsigned word) {
#pragma unroll
    for (unsigned& w : words) w = word;
  }

  // The bits of place r, without those above if T has fewer than 32.
  __device__ __forceinline__ unsigned bits(int r) const {
    constexpr unsigned size = sizeof(T) < 4 ? sizeof(T) : 4;
    const unsigned shifted = words[r * sizeof(T) / 4] >> (r * sizeof(T) % 4 * 8);
    return size == 4 ? shifted : shifted & ((1u << size * 8 % 32) - 1u);
  }

  __device__ __forceinline__ T get(int r) const {
    if constexpr (std::is_same_v<T, double>) {
      return __hiloint2double(static_cast<int>(words[2 * r + 1]), static_cast<int>(words[2 * r]));
    } else if constexpr (std::is_same_v<T, float>) {
      return __uint_as_float(words[r]);
    } else if constexpr (std::is_same_v<T, __half>) {
      return __ushort_as_half(static_cast<unsigned short>(bits(r)));
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      return __ushort_as_bfloat16(static_cast<unsigned short>(bits(r)));
    } else {
      return static_cast<T>(bits(r));
    }
  }
};

// A pointer that the compiler does not recompute for every load that a condition guards.
template <class T>
__device__ __forceinline__ const T* keep_in_register(const T* pointer) {
  asm("" : "+l"(pointer));
  return pointer;
}

// Slots whose loads are in flight together: 16 places a lane, half as many of 8 bytes. A power of two, at most 8.
template <class Value, int R>
constexpr int batch_slots = std::min((sizeof(Value) == 8 ? 8 : 16) / R, 8);

// One lane's work on its R rows of a segment: row r is at position 32 r + lane of the slice. All but `lane`, and
// what is loaded with it, is the same for the whole warp.
template <class Value, int R>
struct lane_rows {
  using sum_type = cuda::sum_type_t<Value>;
  static constexpr int height = sell_lanes * R;
  static constexpr int batch = batch_slots<Value, R>;

  const Value* __restrict__ x;
  const Value* values;           // the lane's places of the first slot
  const unsigned char* encoded;  // slot bases, presence bits and codes of the segment
  int num_slots;
  int lane;
  sum_type sums[R] = {};

  __device__ __forceinline__ const unsigned char* after_slot_bases() const {
    return encoded + (num_slots + sell_slot_group - 1) / sell_slot_group * sell_slot_group * sizeof(int);
  }

  // The lane's places of the slots from `slot` on, of an array that starts at `first`. Places past the last slot are
  // not loaded: they get the bits of `absent`.
  template <class T>
  __device__ __forceinline__ void load_batch(const T* first, int slot, unsigned absent,
                                             packed<T, R> (&loaded)[batch]) const {
    const T* from = keep_in_register(first + std::int64_t{slot} * height);
#pragma unroll
    for (int u = 0; u < batch; ++u) {
      loaded[u].fill(absent);
      if (slot + u < num_slots) loaded[u].load_once(from + u * height);
    }
  }

  // Slot bases are padded to whole groups, so a batch can always be loaded whole.
  __device__ __forceinline__ void load_slot_bases(int slot, int (&bases)[batch]) const {
    constexpr int width = batch < 4 ? batch : 4;
    const int* from = reinterpret_cast<const int*>(encoded) + slot;
#pragma unroll
    for (int u = 0; u < batch; u += width) {
      const auto loaded = cuda::load<int, width>(from + u);
#pragma unroll
      for (int i = 0; i < width; ++i) bases[u + i] = loaded.lane[i];
    }
  }

  // Adds the places of a batch. A negative column marks no entry: such a place adds 0 * 0, whatever x holds; with
  // `Jumps` its value may have any bits.
  template <bool Jumps = false>
  __device__ __forceinline__ void multiply(const packed<Value, R> (&loaded)[batch], const int (&columns)[batch][R]) {
    Value x_values[batch][R];
#pragma unroll
    for (int u = 0; u < batch; ++u) {
#pragma unroll
      for (int r = 0; r < R; ++r) x_values[u][r] = columns[u][r] >= 0 ? cuda::read_only(x + columns[u][r]) : Value(0);
    }
#pragma unroll
    for (int u = 0; u < batch; ++u) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        sum_type value = cuda::widen(loaded[u].get(r));
        if (Jumps && columns[u][r] < 0) value = 0;
        sums[r] += value * cuda::widen(x_values[u][r]);
      }
    }
  }

  template <bool Full>
  __device__ __forceinline__ void diagonals() {
    const unsigned char* presence = after_slot_bases() + lane * R;
    for (int slot = 0; slot < num_slots; slot += batch) {
      packed<Value, R> loaded[batch];
      load_batch(values, slot, 0, loaded);
      packed<unsigned char, R> group;  // one bit for each slot of a group; none past the last slot
      if constexpr (!Full) group.load_once(presence + slot / static_cast<int>(sell_slot_group) * height);
      int bases[batch];
      load_slot_bases(slot, bases);
      cuda::keep_load_order();
      int columns[batch][R];
#pragma unroll
      for (int u = 0; u < batch; ++u) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const bool entry = Full ? slot + u < num_slots : (group.bits(r) >> (slot % sell_slot_group + u) & 1u) != 0;
          columns[u][r] = entry ? bases[u] + r * sell_lanes + lane : -1;
        }
      }
      multiply(loaded, columns);
    }
  }

  // Codes are offsets from the base of their slot, or all from `segment_base`.
  template <bool SlotBases, class Code>
  __device__ __forceinline__ void offsets(int segment_base) {
    const auto* codes = reinterpret_cast<const Code*>(SlotBases ? after_slot_bases() : encoded) + lane * R;
    for (int slot = 0; slot < num_slots; slot += batch) {
      packed<Code, R> offset[batch];
      load_batch(codes, slot, ~0u, offset);
      int bases[batch];
      if constexpr (SlotBases) load_slot_bases(slot, bases);
      packed<Value, R> loaded[batch];
      load_batch(values, slot, 0, loaded);
      cuda::keep_load_order();
      int columns[batch][R];
#pragma unroll
      for (int u = 0; u < batch; ++u) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const int column = (SlotBases ? bases[u] : segment_base) + static_cast<int>(offset[u].bits(r));
          columns[u][r] = offset[u].get(r) != Code(-1) ? column : -1;
        }
      }
      multiply(loaded, columns);
    }
  }

  template <class Code>
  __device__ __forceinline__ void deltas(int segment_base) {
    const auto* codes = reinterpret_cast<const Code*>(encoded) + lane * R;
    int column[R];
#pragma unroll
    for (int r = 0; r < R; ++r) column[r] = segment_base;
    for (int slot = 0; slot < num_slots; slot += batch) {
      packed<Code, R> delta[batch];
      load_batch(codes, slot, ~0u, delta);
      packed<Value, R> loaded[batch];
      load_batch(values, slot, 0, loaded);
      cuda::keep_load_order();
      int columns[batch][R];
#pragma unroll
      for (int u = 0; u < batch; ++u) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const bool entry = delta[u].get(r) != Code(-1);
          // A place without an entry jumps by the low bits of its value.
          column[r] += static_cast<int>(entry ? delta[u].bits(r) : loaded[u].bits(r));
          columns[u][r] = entry ? column[r] : -1;
        }
      }
      multiply<true>(loaded, columns);
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

// Adds the sums of all parts of a slice in the warp of its first part. `partial` has R * 32 sums for each warp; the
// parts of a slice are neighbouring warps of one block. All threads of the block take part.
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
template <class Value, int R, class Finish>
__global__ void __launch_bounds__(max_warps_per_block* sell_lanes, min_blocks)
    compressed_sell_vector_kernel(unsigned num_rows, unsigned num_segments, unsigned segments_per_warp, int log2_parts,
                                  const int4* __restrict__ segments, const unsigned char* __restrict__ indices,
                                  const Value* __restrict__ values, const std::int32_t* __restrict__ row_ids,
                                  const Value* __restrict__ x, Value* __restrict__ y, Finish finish) {
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
    rows_type rows{keep_in_register(x), values + std::int64_t{description.x} * rows_type::height + lane * R,
                   indices + static_cast<std::size_t>(static_cast<unsigned>(description.z)) * sell_index_unit,
                   static_cast<int>(slots_and_encoding >> 3), lane};
    rows.multiply_segment(static_cast<sell_encoding>(slots_and_encoding & 7u), description.w);
    if (log2_parts > 0) {
      add_parts(rows.sums, reinterpret_cast<typename rows_type::sum_type*>(shared_sums), 1 << log2_parts, warp, lane);
      if (warp & ((1 << log2_parts) - 1)) {
        if constexpr (!Finish::has_end) return;
        break;  // a warp has one segment then
      }
    }
    const std::uint64_t first_row = std::uint64_t{segment >> log2_parts} * rows_type::height;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const std::uint64_t row = first_row + r * sell_lanes + lane;
      if (row < num_rows) finish.store(y, row_ids ? row_ids[row] : row, rows.sums[r]);
    }
  }
  finish.end();
}

// Several segments for each warp hide the latency of loading a segment's description, once there are enough of them for
// every warp that the GPU can hold, several times over.
unsigned choose_segments_per_warp(std::size_t num_segments, int parts) {
  constexpr std::size_t warps_per_multiprocessor = 32;
  constexpr std::size_t rounds = 8;
  if (parts > 1) return 1;
  const std::size_t warps = cuda::device_attribute(cudaDevAttrMultiProcessorCount) * warps_per_multiprocessor;
  return static_cast<unsigned>(std::clamp<std::size_t>(num_segments / (warps * rounds), 1, 4));
}

template <class Value, int R>
class compressed_sell_vector_plan final : public spmv_plan, public finishing_plan {
 public:
  // Position p of the matrix is row row_ids[p]; without `row_ids`, that which the matrix says.
  compressed_sell_vector_plan(cuda::device_compressed_sell matrix, device_permutation row_ids)
      : matrix_(std::move(matrix)),
        row_ids_(std::move(row_ids)),
        num_rows_(static_cast<unsigned>(matrix_.num_rows())),
        parts_(matrix_.options().parts),
        segments_per_warp_(choose_segments_per_warp(matrix_.num_segments(), parts_)) {}

  void multiply(const void* x, void* y, CUstream_st* stream) override {
    launch(x, y, cuda::stored_as_they_are{}, stream);
  }

  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (!cuda::is_finished_by_rows(by)) return false;
    launch(B.data, C.data, cuda::finished<Value>{cuda::finishing_values<Value>(by), nullptr, {}}, stream);
    return true;
  }

  bool run_with_dot(const dense_view& x, const dense_view& y, void* dot, CUstream_st* stream) override {
    if (num_rows_ == 0 || !sums_.reserve(blocks(), stream)) return false;
    const auto* const from = static_cast<const Value*>(x.data);
    launch(x.data, y.data,
           cuda::finished<Value>{cuda::finishing_values<Value>({}), from,
                                 sums_.template view<cuda::sum_type_t<Value>>(dot)},
           stream);
    return true;
  }

  std::size_t bytes() const override {
    return matrix_.bytes() + sums_.bytes() + (row_ids_ ? std::size_t{num_rows_} * sizeof(std::int32_t) : 0);
  }
  std::vector<value_array> value_arrays() override { return {matrix_.all_values()}; }

 private:
  int warps() const { return std::max(parts_, warps_per_block); }  // of a thread block
  unsigned blocks() const {
    const std::uint64_t per_block = std::uint64_t{segments_per_warp_} * warps();
    return static_cast<unsigned>((matrix_.num_segments() + per_block - 1) / per_block);
  }

  template <class Finish>
  void launch(const void* x, void* y, const Finish& finish, cudaStream_t stream) const {
    if (num_rows_ == 0) return;
    const std::size_t shared = parts_ > 1 ? warps() * sell_lanes * R * sizeof(cuda::sum_type_t<Value>) : 0;
    compressed_sell_vector_kernel<Value, R><<<blocks(), warps() * sell_lanes, shared, stream>>>(
        num_rows_, static_cast<unsigned>(matrix_.num_segments()), segments_per_warp_,
        std::countr_zero(static_cast<unsigned>(parts_)), reinterpret_cast<const int4*>(matrix_.segments()),
        reinterpret_cast<const unsigned char*>(matrix_.indices()), matrix_.values<Value>(),
        row_ids_ ? row_ids_.get() : matrix_.row_ids(), static_cast<const Value*>(x), static_cast<Value*>(y), finish);
    cuda::check_launch("compressed_sell_vector_kernel");
  }

  cuda::device_compressed_sell matrix_;
  device_permutation row_ids_;
  unsigned num_rows_;
  int parts_;
  unsigned segments_per_warp_;
  cuda::grid_sum_workspace sums_;
};

// Offsets of 64 bits are converted on the host.
cuda::device_compressed_sell make_matrix(const device_csr& matrix, const product_request& request,
                                         const device_allocator& allocate) {
  const compressed_sell_options options = compressed_sell_options_of(request);
  const auto check_places = [&](std::int64_t places) {
    refuse_candidate("compressed-sell/vector", compressed_sell_places_reason(places, matrix.nnz()));
  };
  if (!matrix.wide()) return {matrix, options, check_places, allocate};
  check_places(compressed_sell_places(matrix.host(), options));
  return {to_compressed_sell(matrix.host(), options), allocate, matrix.stream()};
}

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_compressed_sell_vector(const device_csr& matrix,
                                                                       const product_request& request,
                                                                       const device_allocator& allocate) {
  cuda::device_compressed_sell stored = make_matrix(matrix, request, allocate);
  const device_permutation row_ids = compose(request.row_ids, stored.row_ids(), matrix, allocate);
  return cuda::dispatch_device_type(matrix.dtype(), [&](auto value) -> std::unique_ptr<product_plan> {
    return cuda::dispatch_constant<1, 2, 4>(
        stored.options().rows_per_lane, [&](auto rows_per_lane) -> std::unique_ptr<product_plan> {
          return std::make_unique<compressed_sell_vector_plan<decltype(value), rows_per_lane>>(std::move(stored),
                                                                                               row_ids);
        });
  });
}

convert_on_gpu_function compressed_sell_from_csr_on_gpu;

std::unique_ptr<stored_matrix> compressed_sell_from_csr_on_gpu(const device_csr& matrix, const option_values& options) {
  const cuda::device_compressed_sell made(
      matrix, {options.integer("rows_per_lane"), options.integer("sort_window"), options.integer("parts")},
      [](std::int64_t) {}, allocate_device_memory);
  return stored(made.download());
}

}  // namespace warploom
