// CSR with hubs: the conversion, and SpMV on the CPU.
#include "kernels/hub_csr/hub_csr.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_hub_csr_segmented_sum;
convert_on_gpu_function convert_to_hub_csr_on_gpu;

void check_hubs(std::int64_t max_hubs, int entries_per_lane) {
  if (entries_per_lane != 1 && entries_per_lane != 2 && entries_per_lane != 4) {
    throw error(error_kind::parameter, "entries_per_lane", -1,
                "entries_per_lane must be 1, 2 or 4, got " + std::to_string(entries_per_lane));
  }
  if (max_hubs < 0 || max_hubs >= std::numeric_limits<std::int32_t>::max()) {
    throw error(error_kind::parameter, "hubs", -1,
                "hubs must be at least 0 and less than 2^31 - 1, got " + std::to_string(max_hubs));
  }
}

std::string hub_share_reason(const matrix_summary& matrix, std::int64_t max_hubs,
                             const std::function<double()>& share) {
  // To load the hubs in every thread block takes longer than to fetch what few nonzeros need.
  if (matrix.nnz < hub_least_nonzeros || matrix.num_cols <= max_hubs || share() >= 0.2) return "";
  return "has less than a fifth of its nonzeros in the columns with the most";
}

namespace {

std::vector<std::int64_t> count_entries_of_columns(const row_storage& rows) {
  std::vector<std::int64_t> counts(rows.num_cols, 0);
  parallel_for(0, rows.nnz(), 1 << 18, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      std::atomic_ref<std::int64_t>(counts[rows.indices[j]]).fetch_add(1, std::memory_order_relaxed);
    }
  });
  return counts;
}

std::vector<std::int32_t> choose_hubs(const std::vector<std::int64_t>& counts, std::int64_t most) {
  std::vector<std::int32_t> hubs;
  for (std::size_t column = 0; column < counts.size(); ++column) {
    if (counts[column] > 1) hubs.push_back(static_cast<std::int32_t>(column));
  }
  if (static_cast<std::int64_t>(hubs.size()) > most) {
    std::nth_element(hubs.begin(), hubs.begin() + most, hubs.end(), [&](std::int32_t a, std::int32_t b) {
      return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
    });
    hubs.resize(most);
    std::sort(hubs.begin(), hubs.end());  // neighbours share sectors of x
  }
  return hubs;
}

// The index of every column.
std::vector<std::int32_t> renumber_columns(std::int64_t num_cols, const std::vector<std::int32_t>& hubs) {
  std::vector<std::int32_t> indices(num_cols);
  for (std::int64_t column = 0; column < num_cols; ++column) indices[column] = static_cast<std::int32_t>(column);
  for (std::size_t hub = 0; hub < hubs.size(); ++hub) indices[hubs[hub]] = static_cast<std::int32_t>(hub_bit | hub);
  return indices;
}

}  // namespace

std::size_t hub_csr::bytes() const {
  return hubs.size() * sizeof(hubs[0]) + lanes.size() * sizeof(lanes[0]) + indices.size() * sizeof(indices[0]) +
         data.size() + empty_rows.size() * sizeof(empty_rows[0]);
}

hub_csr to_hub_csr(const row_storage& rows, std::int64_t max_hubs, int entries_per_lane) {
  check_hubs(max_hubs, entries_per_lane);
  hub_csr result;
  result.num_rows = rows.num_rows;
  result.num_cols = rows.num_cols;
  result.dtype = rows.dtype;
  result.num_entries = rows.nnz();
  result.entries_per_lane = entries_per_lane;
  result.hubs = choose_hubs(count_entries_of_columns(rows), max_hubs);
  const std::vector<std::int32_t> index_of = renumber_columns(rows.num_cols, result.hubs);

  const auto row_of = [&](std::int64_t p) {
    return rows.row_ids.empty() ? static_cast<std::int32_t>(p) : rows.row_ids[p];
  };
  std::vector<std::int64_t> first_lane{0};
  first_lane.reserve(rows.num_rows + 1);
  std::int32_t last_row = 0;
  for (std::int64_t p = 0; p < rows.num_rows; ++p) {
    const std::int64_t length = rows.indptr[p + 1] - rows.indptr[p];
    first_lane.push_back(first_lane.back() + (length + entries_per_lane - 1) / entries_per_lane);
    if (length == 0) {
      result.empty_rows.push_back(row_of(p));
    } else {
      last_row = row_of(p);
    }
  }

  const std::int64_t per_tile = result.lanes_per_tile();
  const std::int64_t lanes = (first_lane.back() + per_tile - 1) / per_tile * per_tile;
  const std::size_t value_size = size_of(rows.dtype);
  result.lanes.assign(lanes, static_cast<std::uint32_t>(last_row));
  result.indices.assign(lanes * entries_per_lane, result.no_entry());
  result.data.resize(lanes * entries_per_lane * value_size);
  const auto* values = static_cast<const std::byte*>(rows.data);
  parallel_for(0, rows.num_rows, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t from = rows.indptr[p];
      const std::int64_t length = rows.indptr[p + 1] - from;
      if (length == 0) continue;
      const auto row = static_cast<std::uint32_t>(row_of(p));
      std::fill(result.lanes.begin() + first_lane[p], result.lanes.begin() + first_lane[p + 1], row);
      result.lanes[first_lane[p]] |= hub_row_head;
      const std::int64_t to = first_lane[p] * entries_per_lane;
      for (std::int64_t j = 0; j < length; ++j) result.indices[to + j] = index_of[rows.indices[from + j]];
      std::memcpy(result.data.data() + to * value_size, values + from * value_size, length * value_size);
    }
  });
  return result;
}

csr_matrix to_csr(const hub_csr& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  const std::int32_t no_entry = matrix.no_entry();
  const auto for_each_entry = [&](auto function) {
    for (std::int64_t place = 0; place < matrix.places(); ++place) {
      if (matrix.indices[place] == no_entry) continue;
      function(matrix.lanes[place / matrix.entries_per_lane] & ~hub_row_head, place);
    }
  };
  for_each_entry([&](std::uint32_t row, std::int64_t) { ++result.indptr[row + 1]; });
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) result.indptr[row + 1] += result.indptr[row];
  const std::size_t value_size = size_of(matrix.dtype);
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * value_size);
  std::vector<std::int64_t> next(result.indptr.begin(), result.indptr.end() - 1);
  for_each_entry([&](std::uint32_t row, std::int64_t place) {
    const std::int64_t to = next[row]++;
    const auto index = static_cast<std::uint32_t>(matrix.indices[place]);
    result.indices[to] = index & hub_bit ? matrix.hubs[index & ~hub_bit] : static_cast<std::int32_t>(index);
    std::memcpy(result.data.data() + to * value_size, matrix.data.data() + place * value_size, value_size);
  });
  return result;
}

std::vector<format_field> hub_csr::fields() const {
  return {
      {"entries_per_lane", std::int64_t{entries_per_lane}},
      {"hubs", array_of(hubs)},
      {"lanes", array_of(lanes)},
      {"indices", array_of(indices)},
      {"data", array_of(data, dtype)},
      {"empty_rows", array_of(empty_rows)},
  };
}

format_description hub_csr_format() {
  return {
      .name = "hub-csr",
      .options = {{"hubs", std::int64_t{24575}, {std::int64_t{0}, std::int64_t{3}}},
                  {"entries_per_lane", std::int64_t{4}, {std::int64_t{1}, std::int64_t{2}}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_hub_csr(store_all_rows(matrix, {}), options.integer<std::int64_t>("hubs"),
                                     options.integer("entries_per_lane")));
          },
      .from_csr_on_gpu = WARPLOOM_CUDA(convert_to_hub_csr_on_gpu),
  };
}

namespace {

// Tiles in parallel; a row is summed from its first lane to its last by the thread that has the first.
class cpu_hub_csr_plan final : public cpu_format_plan<cpu_hub_csr_plan, hub_csr> {
 public:
  using cpu_format_plan::cpu_format_plan;

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    std::vector<Value> hub_x;
    hub_x.reserve(matrix_.hubs.size() + 1);
    for (const std::int32_t column : matrix_.hubs) hub_x.push_back(x[column]);
    hub_x.push_back(Value(0));
    constexpr std::int64_t tiles_per_thread = 64;
    parallel_for(0, matrix_.num_tiles(), tiles_per_thread, [&](std::int64_t begin, std::int64_t end) {
      multiply_lanes(begin * matrix_.lanes_per_tile(), end * matrix_.lanes_per_tile(), x, hub_x.data(), y);
    });
    for (const std::int32_t row : matrix_.empty_rows) y[row] = Value(0);
  }

 private:
  // The rows that begin in these lanes.
  template <class Value>
  void multiply_lanes(std::int64_t lane, std::int64_t end, const Value* x, const Value* hub_x, Value* y) const {
    const auto begins_row = [&](std::int64_t i) { return (matrix_.lanes[i] & hub_row_head) != 0; };
    const auto num_lanes = static_cast<std::int64_t>(matrix_.lanes.size());
    while (lane < end && !begins_row(lane)) ++lane;
    while (lane < end) {
      const std::uint32_t row = matrix_.lanes[lane] & ~hub_row_head;
      accumulator_t<Value> sum = 0;
      do {
        sum += lane_sum(lane++, x, hub_x);
      } while (lane < num_lanes && !begins_row(lane));
      y[row] = Value(sum);
    }
  }

  template <class Value>
  accumulator_t<Value> lane_sum(std::int64_t lane, const Value* x, const Value* hub_x) const {
    const std::int32_t* indices = matrix_.indices.data() + lane * matrix_.entries_per_lane;
    const Value* values = reinterpret_cast<const Value*>(matrix_.data.data()) + lane * matrix_.entries_per_lane;
    accumulator_t<Value> sum = 0;
    for (int i = 0; i < matrix_.entries_per_lane; ++i) {
      const auto index = static_cast<std::uint32_t>(indices[i]);
      sum += values[i] * (index & hub_bit ? hub_x[index & ~hub_bit] : x[index]);
    }
    return sum;
  }
};

std::int64_t requested_hubs(const csr_view& matrix, const product_request& request) {
  return hubs_in(std::int64_t{request.parameters.at("hub_kb")} * 1024, matrix.dtype);
}

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_hub_csr_plan>(to_hub_csr(store_all_rows(matrix, request.perm),
                                                       requested_hubs(matrix, request),
                                                       request.parameters.at("entries_per_lane")));
}

// About which part of the nonzeros is in hubs, from a sample: hubs are chosen by every other nonzero of it and judged
// by the rest, so that a column that the sample happens to have twice does not count for more than it is.
double estimate_hub_share(const csr_view& matrix, std::int64_t max_hubs) {
  constexpr std::int64_t sample = 1 << 17;
  std::vector<std::int32_t> chosen_by(sample);
  std::vector<std::int32_t> judged_by(sample);
  for (std::int64_t i = 0; i < sample; ++i) {
    chosen_by[i] = matrix.indices[2 * i * matrix.nnz() / (2 * sample)];
    judged_by[i] = matrix.indices[(2 * i + 1) * matrix.nnz() / (2 * sample)];
  }
  std::sort(chosen_by.begin(), chosen_by.end());
  std::vector<std::pair<std::int64_t, std::int32_t>> counted;  // entries, column
  for (auto first = chosen_by.begin(); first != chosen_by.end();) {
    const auto last = std::upper_bound(first, chosen_by.end(), *first);
    counted.emplace_back(last - first, *first);
    first = last;
  }
  if (static_cast<std::int64_t>(counted.size()) > max_hubs) {
    std::nth_element(counted.begin(), counted.begin() + max_hubs, counted.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    counted.resize(max_hubs);
  }
  std::vector<std::int32_t> hubs;
  hubs.reserve(counted.size());
  for (const auto& [entries, column] : counted) hubs.push_back(column);
  std::sort(hubs.begin(), hubs.end());
  const auto held = std::count_if(judged_by.begin(), judged_by.end(), [&](std::int32_t column) {
    return std::binary_search(hubs.begin(), hubs.end(), column);
  });
  return static_cast<double>(held) / static_cast<double>(sample);
}

std::string hub_reason(const csr_view& matrix, const product_request& request) {
  const std::int64_t most = requested_hubs(matrix, request);
  matrix_summary sizes;
  sizes.num_cols = matrix.num_cols;
  sizes.nnz = matrix.nnz();
  return hub_share_reason(sizes, most, [&] { return estimate_hub_share(matrix, most); });
}

// Where the smaller of two sizes has room for all of x, in the widest type.
bool more_than_all_columns(const matrix_summary& matrix, const product_request& request) {
  return std::int64_t{request.parameters.at("hub_kb")} * 1024 / 2 > (matrix.num_cols + 1) * 8;
}

}  // namespace

product_kernel spmv_hub_csr_segmented_sum() {
  return {
      .op = operation::spmv,
      .name = "segmented_sum",
      .format = "hub-csr",
      .summary =
          "Each thread block keeps x at the columns with the most nonzeros in shared memory; warps sum their share of "
          "the nonzeros by segmented scans. For large irregular matrices.",
      .source = "own",
      .layouts = {layout::column_major},
      .parameters = {{"hub_kb",
                      96,
                      {1, 16, 32, 64, 96, 128, 192},
                      {64, 96, 192},
                      true,
                      "kilobytes of x in shared memory, as far as the GPU has them"},
                     {"entries_per_lane", 4, {1, 2, 4}, {4}, true, "consecutive entries of a row in each lane"}},
      .dtypes = all_value_types,
      .from_device = true,
      .hopeless = [](const matrix_summary& matrix) { return matrix.nnz < hub_least_nonzeros; },
      .redundant = more_than_all_columns,
      .unsupported_reason = needs_int32_offsets,
      .pattern_reason = hub_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_hub_csr_segmented_sum),
  };
}

}  // namespace warploom
