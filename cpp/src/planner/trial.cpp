#include "planner/trial.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <set>

#include "warploom/error.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

using clock = std::chrono::steady_clock;

double milliseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

// Different values in the operand: prime, so that rows and columns do not repeat.
constexpr std::int64_t max_numbers = 1'000'003;
constexpr std::int64_t max_different_columns = 64;
constexpr std::size_t staging_bytes = 64u << 20;

// What rounding is judged by.
struct precision {
  double sum_eps;   // of the type that products are summed in, at least that of the reference
  double eps;       // of a last rounding to the value type, or 0 if the sum has that type
  double smallest;  // subnormal
  double maximum;
};

precision precision_of(value_type dtype) {
  constexpr double eps64 = std::numeric_limits<double>::epsilon();
  if (dtype == value_type::float64) {
    return {eps64, 0, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()};
  }
  constexpr double eps32 = std::numeric_limits<float>::epsilon();
  if (dtype == value_type::float32) {
    return {eps32, 0, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()};
  }
  if (dtype == value_type::bfloat16) return {eps32, 0x1p-7, 0x1p-133, 0x1.fep127};
  return {eps32, 0x1p-10, 0x1p-24, 65504};
}

double to_double(const std::byte* values, std::int64_t i, value_type dtype) {
  return dispatch_value_type(dtype, [&]<class Value>(Value) {
    Value value;
    std::memcpy(&value, values + i * sizeof(Value), sizeof(Value));
    return static_cast<double>(value);
  });
}

// The first, the last and the longest row, and some at random; all of them where there are few enough.
std::vector<std::int64_t> sample_rows(const csr_pattern& matrix, std::int64_t count, bool all_if_few) {
  const std::int64_t m = matrix.num_rows;
  std::vector<std::int64_t> rows;
  if (m == 0 || (all_if_few && m <= count)) {
    for (std::int64_t row = 0; row < m; ++row) rows.push_back(row);
    return rows;
  }
  std::int64_t longest = 0;
  for (std::int64_t row = 1; row < m; ++row) {
    if (matrix.row_length(row) > matrix.row_length(longest)) longest = row;
  }
  std::set<std::int64_t> sampled{0, m - 1, longest};
  std::mt19937_64 random(1);
  for (std::int64_t i = 0; i < count; ++i) sampled.insert(static_cast<std::int64_t>(random() % m));
  return {sampled.begin(), sampled.end()};
}

std::vector<std::int64_t> sample_columns(std::int64_t k, bool all) {
  std::set<std::int64_t> sampled{0, k - 1};
  std::mt19937_64 random(1);
  for (int i = 0; i < 6; ++i) sampled.insert(static_cast<std::int64_t>(random() % k));
  if (all) {
    for (std::int64_t j = 0; j < k; ++j) sampled.insert(j);
  }
  return {sampled.begin(), sampled.end()};
}

std::string in_words(std::int64_t rows, std::int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

}  // namespace

// ---- Preparation

timed_permutation permute(const problem& given, const std::string& name, given_up then) {
  timed_permutation permuted{name, {}};
  if (name == "none") return permuted;
  const permutation_algorithm& algorithm = find_permutation(name);
  const bool narrow = given.nnz() <= std::numeric_limits<std::int32_t>::max();
  if (given.on_gpu() && algorithm.compute_on_gpu != nullptr && narrow) {
    const std::shared_ptr<const device_csr> matrix = given.resident();
    const device_guard guard(given.device);
    const auto start = clock::now();
    permuted.on_gpu = then == given_up::refused ? algorithm.compute_on_gpu(*matrix, geometry{}, given.allocate)
                                                : permute_on_gpu(algorithm, *matrix, geometry{}, given.allocate);
    if (!permuted.on_gpu) {
      throw error(error_kind::parameter, "permutation", -1,
                  "the GPU gave up the order " + name + ", which the host would take too long for");
    }
    synchronize(stream_of(*matrix));
    permuted.milliseconds = milliseconds_since(start);
    return permuted;
  }
  const csr_view& matrix = given.matrix();
  const auto start = clock::now();
  permuted.perm = algorithm.compute(matrix, geometry{});
  permuted.milliseconds = milliseconds_since(start);
  return permuted;
}

std::unique_ptr<plan> prepare_candidate(const problem& given, const candidate& chosen, const timed_permutation& rows,
                                        const kernel_inputs& inputs) {
  product_request request;
  request.k = given.k;
  request.order = given.order;
  request.parameters = chosen.parameters;
  request.inputs = inputs;
  // Some ask for it on the host, wherever it was computed.
  row_permutation downloaded;
  std::span<const std::int32_t> on_host = rows.perm;
  if (rows.on_gpu && (given.updatable || !chosen.kernel->from_device)) {
    on_host = downloaded = download_permutation(rows.on_gpu, *given.resident());
  }
  if (rows.on_gpu && chosen.kernel->from_device) {
    request.row_ids = rows.on_gpu;
  } else if (rows.name != "none") {
    request.perm = on_host;
  }
  std::vector<preparation_step> steps{{"permutation", rows.milliseconds}};
  auto start = clock::now();
  std::unique_ptr<product_plan> prepared;
  if (given.on_gpu()) {
    const std::shared_ptr<const device_csr> matrix = given.resident();
    steps.push_back({"upload", milliseconds_since(start)});
    start = clock::now();
    const device_guard guard(given.device);
    prepared = prepare(*chosen.kernel, *matrix, request, given.allocate);
    // Products may run on any stream.
    synchronize(stream_of(*matrix));
    if (stream_of(*matrix) != nullptr) synchronize(nullptr);
  } else {
    prepared = prepare(*chosen.kernel, given.matrix(), request);
  }
  steps.push_back({"conversion", milliseconds_since(start)});
  auto made = std::make_unique<plan>(given, chosen, std::move(prepared), std::move(steps));
  if (given.on_gpu()) made->ordered_on(stream_of(*given.resident()));
  if (given.updatable) made->keep_permutation({on_host.begin(), on_host.end()});
  return made;
}

std::unique_ptr<plan> prepare_candidate(const problem& given, const candidate& chosen, const kernel_inputs& inputs) {
  return prepare_candidate(given, chosen, permute(given, chosen.permutation), inputs);
}

std::string reason_against(const candidate& tried, const problem& given) {
  product_request request;
  request.k = given.k;
  request.order = given.order;
  request.parameters = tried.parameters;
  // The pattern is that of the permuted matrix, which preparing on a GPU looks at.
  const bool moves = tried.is_permuted() && given.on_gpu() && tried.kernel->from_device;
  return moves ? reason_against(*tried.kernel, given.summary(), request)
               : reason_against(*tried.kernel, given.matrix(), request);
}

// ---- Times

timing summarize(std::vector<double> microseconds) {
  std::sort(microseconds.begin(), microseconds.end());
  const auto percentile = [&](double share) {
    const double position = share * static_cast<double>(microseconds.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, microseconds.size() - 1);
    return std::lerp(microseconds[below], microseconds[above], position - static_cast<double>(below));
  };
  return {percentile(0.5), percentile(0.1), percentile(0.9), static_cast<int>(microseconds.size())};
}

// ---- Operands

// B repeats up to 64 columns of random numbers: quick to make, and neither zeros nor a pattern to profit from.
struct trial::operands {
  explicit operands(const problem& given)
      : dtype(given.dtype()),
        by_row(given.order == layout::row_major),
        m(given.num_rows()),
        n(given.num_cols()),
        k(given.k),
        width(std::min(k, max_different_columns)) {
    const std::int64_t count = std::min(n * width, max_numbers);
    numbers.resize(count * size_of(dtype));
    std::mt19937_64 random(0);
    dispatch_value_type(dtype, [&]<class Value>(Value) {
      for (std::int64_t i = 0; i < count; ++i) {
        const double uniform = static_cast<double>(random() >> 11) * 0x1p-52 - 1;  // -1 to 1
        const Value value(static_cast<float>(uniform));
        std::memcpy(numbers.data() + i * sizeof(Value), &value, sizeof(Value));
      }
    });
  }

  std::int64_t lines_of_B() const { return by_row ? n : k; }
  std::int64_t length_of_B() const { return by_row ? k : n; }
  std::int64_t lines_of_C() const { return by_row ? m : k; }
  std::int64_t length_of_C() const { return by_row ? k : m; }
  std::size_t bytes_of_B() const { return static_cast<std::size_t>(n) * k * size_of(dtype); }
  std::size_t bytes_of_C() const { return static_cast<std::size_t>(m) * k * size_of(dtype); }

  dense_view view_B(void* data) const { return {data, n, k, std::max<std::int64_t>(length_of_B(), 1)}; }
  dense_view view_C(void* data) const { return {data, m, k, std::max<std::int64_t>(length_of_C(), 1)}; }

  std::int64_t number_at(std::int64_t row, std::int64_t column) const {
    const std::int64_t place = by_row ? row * width + column % width : column % width * n + row;
    return place % static_cast<std::int64_t>(numbers.size() / size_of(dtype));
  }

  // Copies `count` numbers from `first` on, starting over at the end.
  void copy_numbers(std::byte* to, std::int64_t first, std::int64_t count) const {
    const std::size_t total = numbers.size();
    std::size_t at = first * size_of(dtype) % total;
    for (std::size_t left = count * size_of(dtype); left > 0;) {
      const std::size_t part = std::min(left, total - at);
      std::memcpy(to, numbers.data() + at, part);
      to += part;
      left -= part;
      at = 0;
    }
  }

  // One row of B in row-major order, or one column.
  void write_line(std::byte* to, std::int64_t line) const {
    if (!by_row) return copy_numbers(to, line % width * n, n);
    for (std::int64_t j = 0; j < k; j += width) {
      copy_numbers(to + j * size_of(dtype), line * width, std::min(width, k - j));
    }
  }

  value_type dtype;
  bool by_row;
  std::int64_t m, n, k;
  std::int64_t width;              // different columns of B
  std::vector<std::byte> numbers;  // of dtype
  std::shared_ptr<void> B, C;      // in the memory of the device, B and C without padding
  std::shared_ptr<void> eviction;  // so that it is allocated once
};

trial::trial(const problem& given) : problem_(given), operands_(std::make_unique<operands>(given)) {
  operands& o = *operands_;
  const std::size_t line_bytes = o.length_of_B() * size_of(o.dtype);
  if (!given.on_gpu()) {
    try {
      const auto allocate = [](std::size_t bytes) {
        return std::shared_ptr<void>(::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t{64}),
                                     [](void* p) { ::operator delete(p, std::align_val_t{64}); });
      };
      o.B = allocate(o.bytes_of_B());
      o.C = allocate(o.bytes_of_C());
    } catch (const std::bad_alloc&) {
      throw error(error_kind::out_of_memory, "k", -1,
                  "B of " + in_words(o.n, o.k) + " or C of " + in_words(o.m, o.k) + " does not fit into memory");
    }
    if (o.bytes_of_B() == 0) return;
    for (std::int64_t line = 0; line < o.lines_of_B(); ++line) {
      o.write_line(static_cast<std::byte*>(o.B.get()) + line * line_bytes, line);
    }
    return;
  }
  const device_guard guard(given.device);
  o.B = allocate_device_memory(std::max<std::size_t>(o.bytes_of_B(), 1));
  o.C = allocate_device_memory(std::max<std::size_t>(o.bytes_of_C(), 1));
  if (o.bytes_of_B() == 0) return;
  // In parts: for k = rows B may be larger than the host would like to hold.
  const auto lines = static_cast<std::int64_t>(std::max<std::size_t>(staging_bytes / line_bytes, 1));
  std::vector<std::byte> part(std::min(lines, o.lines_of_B()) * line_bytes);
  for (std::int64_t first = 0; first < o.lines_of_B(); first += lines) {
    const std::int64_t count = std::min(lines, o.lines_of_B() - first);
    for (std::int64_t line = 0; line < count; ++line) o.write_line(part.data() + line * line_bytes, first + line);
    copy_to_device(static_cast<std::byte*>(o.B.get()) + first * line_bytes, part.data(), count * line_bytes, nullptr);
    synchronize(nullptr);
  }
}

trial::~trial() = default;

// ---- Checking

// Of products of two numbers that are rounded to 11 significant bits each, relatively.
constexpr double tf32_rounding = 0x1p-10 + 0x1p-21;

// Sampled entries of C, computed in float64, and the rounding each may differ by: infinite where NaN and infinity in A
// spread or sums overflow, which is not verified here.
struct trial::expectation {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> columns;
  std::vector<double> exact;  // [rows x columns]
  std::vector<double> bound;
  std::vector<double> scale;  // |A| |B|
};

const trial::expectation& trial::expected() {
  if (expectation_) return *expectation_;
  const operands& o = *operands_;
  const csr_view& A = problem_.matrix();
  expectation e;
  e.rows = sample_rows(A, o.by_row ? 61 : 1 << 14, !o.by_row);
  e.columns = sample_columns(o.k, o.by_row);
  const std::size_t size = e.rows.size() * e.columns.size();
  e.exact.assign(size, 0);
  e.bound.assign(size, 0);
  e.scale.assign(size, 0);
  const precision limits = precision_of(o.dtype);
  const auto* data = static_cast<const std::byte*>(A.data);
  const auto width = static_cast<std::int64_t>(e.columns.size());
  parallel_for(0, static_cast<std::int64_t>(e.rows.size()), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = e.rows[i];
      double* const exact = e.exact.data() + i * width;
      double* const scale = e.scale.data() + i * width;
      for (std::int64_t j = A.indptr[row]; j < A.indptr[row + 1]; ++j) {
        const double a = to_double(data, j, o.dtype);
        for (std::int64_t c = 0; c < width; ++c) {
          const double product = a * to_double(o.numbers.data(), o.number_at(A.indices[j], e.columns[c]), o.dtype);
          exact[c] += product;
          scale[c] += std::abs(product);
        }
      }
      const auto length = static_cast<double>(A.row_length(row));
      for (std::int64_t c = 0; c < width; ++c) {
        const bool judged = scale[c] < limits.maximum / 2;
        const double bound =
            (length + 2) * (limits.sum_eps * scale[c] + limits.smallest) + limits.eps * std::abs(exact[c]);
        e.bound[i * width + c] = judged ? bound : std::numeric_limits<double>::infinity();
      }
    }
  });
  expectation_ = std::make_unique<expectation>(std::move(e));
  return *expectation_;
}

std::string trial::check(plan& checked, bool rounds_sums) {
  return check(checked.kernel_plan(), checked.precision(), rounds_sums);
}

std::string trial::check(product_plan& checked, product_precision precision, bool rounds_sums) {
  operands& o = *operands_;
  const expectation& e = expected();
  const std::size_t itemsize = size_of(o.dtype);
  const std::size_t line_bytes = o.length_of_C() * itemsize;
  const bool on_gpu = problem_.on_gpu();
  std::optional<device_guard> guard;
  if (on_gpu) guard.emplace(problem_.device);
  // NaN in every type: must be overwritten.
  if (on_gpu) {
    fill_device(o.C.get(), 0xff, o.bytes_of_C(), nullptr);
  } else {
    std::memset(o.C.get(), 0xff, o.bytes_of_C());
  }
  checked.run(o.view_B(o.B.get()), o.view_C(o.C.get()), nullptr);

  // Sampled lines of C, on the host. One copy of all of them is quicker than one for each.
  const std::vector<std::int64_t>& lines = o.by_row ? e.rows : e.columns;
  const bool everything = !on_gpu || o.bytes_of_C() <= 1u << 20;
  std::vector<std::byte> copied;
  const std::byte* seen = static_cast<const std::byte*>(o.C.get());
  if (on_gpu) {
    copied.resize(everything ? o.bytes_of_C() : lines.size() * line_bytes);
    if (everything) {
      copy_to_host(copied.data(), o.C.get(), copied.size(), nullptr);
    } else {
      for (std::size_t i = 0; i < lines.size(); ++i) {
        copy_to_host(copied.data() + i * line_bytes, static_cast<const std::byte*>(o.C.get()) + lines[i] * line_bytes,
                     line_bytes, nullptr);
      }
    }
    seen = copied.data();
  }

  const double product_eps = precision == product_precision::tf32 ? tf32_rounding : 0;
  const double partial_sum_eps = rounds_sums ? precision_of(o.dtype).eps : 0;
  std::int64_t wrong = 0, judged = 0;
  for (std::size_t i = 0; i < e.rows.size(); ++i) {
    const auto length = static_cast<double>(problem_.matrix().row_length(e.rows[i]));
    for (std::size_t c = 0; c < e.columns.size(); ++c) {
      const std::size_t place = i * e.columns.size() + c;
      if (!std::isfinite(e.bound[place])) continue;
      const std::size_t sampled = o.by_row ? i : c;
      const auto line = static_cast<std::int64_t>(everything ? lines[sampled] : sampled);
      const std::int64_t within = o.by_row ? e.columns[c] : e.rows[i];
      const double value = to_double(seen + line * line_bytes, within, o.dtype);
      ++judged;
      const double rounding = (product_eps + partial_sum_eps * length) * e.scale[place];
      if (!(std::abs(value - e.exact[place]) <= e.bound[place] + rounding)) ++wrong;
    }
  }
  if (wrong == 0) return "";
  return "wrong result in " + std::to_string(wrong) + " of " + std::to_string(judged) + " sampled entries";
}

// ---- Timing

timing trial::time(product_plan& timed, cache_state cache, int repeats, int warmup, double budget_ms) {
  const bool cold = cache == cache_state::cold;
  if (!problem_.on_gpu()) return summarize(time_on_cpu(timed, cold, repeats, warmup, budget_ms));
  const operands& o = *operands_;
  const dense_view B = o.view_B(o.B.get()), C = o.view_C(o.C.get());
  const device_guard guard(problem_.device);
  if (cold && !o.eviction) operands_->eviction = eviction_memory();
  return summarize(time_on_device([&](CUstream_st* stream) { timed.run(B, C, stream); },
                                  {cold, warmup, repeats, budget_ms, std::min(3, repeats)}, nullptr));
}

std::vector<double> trial::time_on_cpu(product_plan& timed, bool cold, int repeats, int warmup, double budget_ms) {
  const operands& o = *operands_;
  const dense_view B = o.view_B(o.B.get()), C = o.view_C(o.C.get());
  // More than the last-level cache of a CPU holds, as a rule.
  if (cold && evicting_.empty()) evicting_.resize(std::size_t{1} << 25);
  const auto start = clock::now();
  for (int i = 0; i < warmup && milliseconds_since(start) < budget_ms; ++i) timed.run(B, C, nullptr);
  std::vector<double> times;
  const int least = std::min(3, repeats);
  while (static_cast<int>(times.size()) < repeats &&
         (static_cast<int>(times.size()) < least || milliseconds_since(start) < budget_ms)) {
    if (cold) {
      for (double& value : evicting_) value += 1;
    }
    const auto before = clock::now();
    timed.run(B, C, nullptr);
    times.push_back(1e3 * milliseconds_since(before));
  }
  return times;
}

double copy_bandwidth(int device) {
  static std::mutex measuring;
  static std::map<int, double> known;
  const std::lock_guard<std::mutex> lock(measuring);
  if (const auto found = known.find(std::max(device, -1)); found != known.end()) return found->second;
  const auto remember = [&](double bandwidth) { return known[std::max(device, -1)] = bandwidth; };
  if (device >= 0) {
    const device_guard guard(device);
    // Less memory measures less exactly, which is not remembered.
    constexpr std::size_t wanted = std::size_t{1} << 29, least = std::size_t{1} << 26;
    for (std::size_t bytes = wanted; bytes >= least; bytes /= 2) {
      try {
        const double bandwidth = measure_copy_bandwidth(bytes);
        return bytes == wanted ? remember(bandwidth) : bandwidth;
      } catch (const error& failure) {
        if (failure.kind() != error_kind::out_of_memory) throw;
      }
    }
    return candidate_row::unknown;
  }
  constexpr std::int64_t size = 1 << 24;
  const std::vector<double> from(size, 1.0);
  std::vector<double> to(size);
  std::vector<double> microseconds;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = clock::now();
    parallel_for(0, size, size / num_threads() + 1, [&](std::int64_t begin, std::int64_t end) {
      std::copy(from.begin() + begin, from.begin() + end, to.begin() + begin);
    });
    microseconds.push_back(1e3 * milliseconds_since(start));
  }
  return remember(2.0 * size * sizeof(double) / (1e-6 * summarize(microseconds).median));
}

}  // namespace warploom
