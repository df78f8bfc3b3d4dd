#include "planner/value_updates.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "device/value_maps.hpp"
#include "planner/positions.hpp"
#include "warploom/error.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t items_per_thread = 1 << 16;

// Calls `function` with an unsigned integer of the size of the values.
template <class Function>
void dispatch_word(value_type dtype, Function function) {
  if (size_of(dtype) == 2) return function(std::uint16_t{});
  if (size_of(dtype) == 4) return function(std::uint32_t{});
  return function(std::uint64_t{});
}

int rounds_for(value_type dtype) {
  int rounds = 0;
  dispatch_word(dtype, [&]<class Word>(Word) { rounds = position_rounds<Word>; });
  return rounds;
}

// What preparing a candidate depends on beside the matrix, with arrays of its own.
class recipe {
 public:
  recipe(const problem& given, const candidate& chosen, std::span<const std::int32_t> perm, const kernel_inputs& inputs)
      : kernel_(chosen.kernel), perm_(perm.begin(), perm.end()) {
    request_.k = given.k;
    request_.order = given.order;
    request_.parameters = chosen.parameters;
    if (chosen.is_permuted()) request_.perm = perm_;
    for (const auto& [name, values] : inputs) {
      std::vector<std::int32_t>& own = inputs_[name];
      own.assign(values.begin(), values.end());
      request_.inputs[name] = own;
    }
  }
  recipe(const recipe&) = delete;
  recipe& operator=(const recipe&) = delete;

  std::unique_ptr<product_plan> on_host(const csr_view& matrix) const { return prepare(*kernel_, matrix, request_); }
  std::unique_ptr<product_plan> on_gpu(const device_csr& matrix, const device_allocator& allocate) const {
    return prepare(*kernel_, matrix, request_, allocate);
  }

 private:
  const product_kernel* kernel_;
  std::vector<std::int32_t> perm_;
  std::map<std::string, std::vector<std::int32_t>> inputs_;
  product_request request_;
};

// ---- On the CPU

// For each place of an array the position of its value and one, or 0 if it holds none.
struct host_map {
  value_array values;
  std::vector<std::uint32_t> positions;  // empty: the places are the positions
};

class host_moves final : public value_updates {
 public:
  host_moves(value_type dtype, std::vector<host_map> maps) : dtype_(dtype), maps_(std::move(maps)) {}

  void update(std::unique_ptr<product_plan>&, const void* data, CUstream_st*) override {
    dispatch_word(dtype_, [&]<class Word>(Word) {
      const auto* const from = static_cast<const Word*>(data);
      for (const host_map& map : maps_) {
        auto* const to = static_cast<Word*>(map.values.data);
        const bool in_order = map.positions.empty();
        parallel_for(0, map.values.places, items_per_thread, [&](std::int64_t begin, std::int64_t end) {
          if (in_order) {
            std::copy(from + begin, from + end, to + begin);
            return;
          }
          for (std::int64_t i = begin; i < end; ++i) {
            if (map.positions[i] != 0) to[i] = from[map.positions[i] - 1];
          }
        });
      }
    });
  }

  std::size_t bytes() const override {
    std::size_t total = 0;
    for (const host_map& map : maps_) total += map.positions.size() * sizeof(map.positions[0]);
    return total;
  }

 private:
  value_type dtype_;
  std::vector<host_map> maps_;
};

class host_conversions final : public value_updates {
 public:
  host_conversions(const csr_view& matrix, std::unique_ptr<const recipe> how)
      : indptr_(matrix.indptr, matrix.indptr + matrix.num_rows + 1),
        indices_(matrix.indices, matrix.indices + matrix.nnz()),
        pattern_(matrix),
        how_(std::move(how)) {
    pattern_.indptr = indptr_.data();
    pattern_.indices = indices_.data();
    pattern_.data = nullptr;
  }

  void update(std::unique_ptr<product_plan>& prepared, const void* data, CUstream_st*) override {
    csr_view matrix = pattern_;
    matrix.data = data;
    prepared = how_->on_host(matrix);
  }

  std::size_t bytes() const override {
    return indptr_.size() * sizeof(indptr_[0]) + indices_.size() * sizeof(indices_[0]);
  }

 private:
  std::vector<std::int64_t> indptr_;
  std::vector<std::int32_t> indices_;
  csr_view pattern_;
  std::unique_ptr<const recipe> how_;
};

// Whether every value has a place.
bool is_complete(const std::vector<host_map>& maps, std::int64_t nnz) {
  std::vector<bool> seen(nnz, false);
  std::int64_t found = 0;
  for (const host_map& map : maps) {
    for (const std::uint32_t position : map.positions) {
      if (position > nnz) return false;
      if (position == 0 || seen[position - 1]) continue;
      seen[position - 1] = true;
      ++found;
    }
  }
  return found == nnz;
}

bool is_in_order(const host_map& map, std::int64_t nnz) {
  if (map.values.places != nnz) return false;
  for (std::int64_t i = 0; i < nnz; ++i) {
    if (map.positions[i] != i + 1) return false;
  }
  return true;
}

std::unique_ptr<value_updates> prepare_on_host(const csr_view& matrix, std::unique_ptr<const recipe> how,
                                               std::unique_ptr<product_plan>& prepared) {
  std::vector<host_map> maps;
  dispatch_word(matrix.dtype, [&]<class Word>(Word) {
    std::vector<Word> words(matrix.nnz());
    csr_view numbered = matrix;
    numbered.data = words.data();
    for (int round = 0; round < position_rounds<Word>; ++round) {
      for (std::int64_t j = 0; j < matrix.nnz(); ++j) {
        words[j] = position_word<Word>(static_cast<std::uint32_t>(j), round);
      }
      prepared = how->on_host(numbered);
      const std::vector<value_array> arrays = prepared->value_arrays();
      maps.resize(arrays.size());
      for (std::size_t a = 0; a < arrays.size(); ++a) {
        maps[a].values = arrays[a];
        maps[a].positions.resize(arrays[a].places);
        const auto* const from = static_cast<const Word*>(arrays[a].data);
        for (std::int64_t i = 0; i < arrays[a].places; ++i) {
          maps[a].positions[i] = read_position<Word>(from[i], round, maps[a].positions[i]);
        }
      }
    }
  });
  std::unique_ptr<value_updates> updates;
  if (is_complete(maps, matrix.nnz())) {
    if (maps.size() == 1 && is_in_order(maps[0], matrix.nnz())) maps[0].positions = {};  // as in CSR
    updates = std::make_unique<host_moves>(matrix.dtype, std::move(maps));
  } else {
    updates = std::make_unique<host_conversions>(matrix, std::move(how));
  }
  updates->update(prepared, matrix.data, nullptr);
  return updates;
}

// ---- On a GPU

class device_moves final : public value_updates {
 public:
  device_moves(value_type dtype, std::vector<device_value_map> maps) : dtype_(dtype), maps_(std::move(maps)) {}

  void update(std::unique_ptr<product_plan>&, const void* data, CUstream_st* stream) override {
    for (const device_value_map& map : maps_) move_values(map, data, dtype_, stream);
  }

  std::size_t bytes() const override {
    std::size_t total = 0;
    for (const device_value_map& map : maps_) total += map.bytes;
    return total;
  }

 private:
  value_type dtype_;
  std::vector<device_value_map> maps_;
};

class device_conversions final : public value_updates {
 public:
  device_conversions(std::shared_ptr<const device_csr> pattern, device_allocator allocate,
                     std::unique_ptr<const recipe> how)
      : pattern_(std::move(pattern)), allocate_(std::move(allocate)), how_(std::move(how)) {}

  void update(std::unique_ptr<product_plan>& prepared, const void* data, CUstream_st* stream) override {
    const std::shared_ptr<const device_csr> matrix = with_values(*pattern_, data, stream, allocate_);
    // Also for what products on the stream still read, and for copies to the host on another one.
    synchronize(stream);
    prepared = how_->on_gpu(*matrix, allocate_);
    synchronize(stream);
    if (stream != nullptr) synchronize(nullptr);
  }

  std::size_t bytes() const override { return device_csr_bytes(*pattern_); }

 private:
  std::shared_ptr<const device_csr> pattern_;
  device_allocator allocate_;
  std::unique_ptr<const recipe> how_;
};

std::unique_ptr<value_updates> prepare_on_gpu(const problem& given, std::unique_ptr<const recipe> how,
                                              std::unique_ptr<product_plan>& prepared) {
  const std::shared_ptr<const device_csr> source = given.resident();
  const value_type dtype = given.dtype();
  CUstream_st* const stream = stream_of(*source);
  std::shared_ptr<const device_csr> pattern = own_pattern(*source, given.allocate);
  std::vector<device_value_map> maps;
  for (int round = 0; round < rounds_for(dtype); ++round) {
    prepared = nullptr;  // before memory for the next one is needed
    const std::shared_ptr<const device_csr> numbered = with_positions(*pattern, round, stream, given.allocate);
    prepared = how->on_gpu(*numbered, given.allocate);
    // Kernels that are enqueued on the default stream have written, too.
    synchronize(stream);
    if (stream != nullptr) synchronize(nullptr);
    const std::vector<value_array> arrays = prepared->value_arrays();
    maps.resize(arrays.size());
    for (std::size_t a = 0; a < arrays.size(); ++a) {
      maps[a].values = arrays[a];
      if (round == 0 && arrays[a].places > 0) {
        maps[a].bytes = arrays[a].places * sizeof(std::uint32_t);
        maps[a].positions = given.allocate(maps[a].bytes);
      }
      read_positions(maps[a], dtype, round, stream);
    }
    synchronize(stream);  // the numbered matrix may go
  }
  const auto nnz = static_cast<std::uint64_t>(given.nnz());
  const position_counts counts = count_positions(maps, given.nnz(), stream);
  std::unique_ptr<value_updates> updates;
  if (counts.found == nnz && counts.outside == 0) {
    if (maps.size() == 1 && counts.in_order == nnz && maps[0].values.places == given.nnz()) {
      maps[0].positions = nullptr;  // as in CSR
      maps[0].bytes = 0;
    }
    for (device_value_map& map : maps) share_patterns(map, stream, given.allocate);
    updates = std::make_unique<device_moves>(dtype, std::move(maps));
  } else {
    maps.clear();
    updates = std::make_unique<device_conversions>(std::move(pattern), given.allocate, std::move(how));
  }
  updates->update(prepared, values_of(*source), stream);
  synchronize(stream);
  return updates;
}

}  // namespace

std::unique_ptr<value_updates> prepare_updates(const problem& given, const candidate& chosen,
                                               std::span<const std::int32_t> perm, const kernel_inputs& inputs,
                                               std::unique_ptr<product_plan>& prepared) {
  if (given.nnz() > std::numeric_limits<std::int32_t>::max()) {
    throw error(error_kind::index_overflow, "updatable", -1,
                "values can be updated of matrices with fewer than 2^31 nonzeros");
  }
  auto how = std::make_unique<const recipe>(given, chosen, perm, inputs);
  if (given.on_gpu()) {
    const device_guard guard(given.device);
    return prepare_on_gpu(given, std::move(how), prepared);
  }
  return prepare_on_host(given.matrix(), std::move(how), prepared);
}

}  // namespace warploom
