#include "warploom/plan.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>

#include "device/release.hpp"
#include "device/stream_order.hpp"
#include "kernels/finishing.hpp"
#include "planner/host_product.hpp"
#include "planner/product_replays.hpp"
#include "planner/value_updates.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {
namespace {

std::string shape_of(std::int64_t rows, std::int64_t columns) {
  return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")";
}

void check_shape(const dense_view& view, std::int64_t rows, std::int64_t columns, const char* name) {
  if (view.num_rows == rows && view.num_cols == columns) return;
  throw error(error_kind::shape, name, -1,
              std::string(name) + " must have shape " + shape_of(rows, columns) + ", got " +
                  shape_of(view.num_rows, view.num_cols));
}

// Bytes from the first element to the last, padding between columns or rows included.
std::size_t span_bytes(const dense_view& view, layout order, value_type dtype) {
  const bool by_row = order == layout::row_major;
  const std::int64_t major = by_row ? view.num_rows : view.num_cols;
  const std::int64_t minor = by_row ? view.num_cols : view.num_rows;
  if (major * minor == 0) return 0;
  return ((major - 1) * view.leading_dimension + minor) * size_of(dtype);
}

}  // namespace

problem::problem(const csr_view& matrix) : host_(std::make_shared<const csr_view>(matrix)) {
  sizes_.num_rows = matrix.num_rows;
  sizes_.num_cols = matrix.num_cols;
  sizes_.nnz = matrix.nnz();
  sizes_.dtype = matrix.dtype;
}

problem::problem(const device_csr_view& matrix, device_allocator memory)
    : device(matrix.device), allocate(std::move(memory)) {
  const device_guard guard(device);
  resident_ = view_csr(matrix, allocate);
  sizes_ = summary_of(*resident_);
  summary_ = std::make_shared<const matrix_summary>(sizes_);
}

const csr_view& problem::matrix() const { return host_ ? *host_ : host_copy(*resident_); }

const matrix_summary& problem::summary() const {
  if (!summary_) {
    summary_ = std::make_shared<const matrix_summary>(on_gpu() ? summary_of(*resident()) : summarize(matrix()));
  }
  return *summary_;
}

std::shared_ptr<const device_csr> problem::resident() const {
  if (!resident_ && on_gpu()) {
    const device_guard guard(device);
    resident_ = upload_csr(*host_, allocate);
  }
  return resident_;
}

problem problem::without_resident() const {
  problem copy = *this;
  copy.summary_ = std::make_shared<const matrix_summary>(summary());
  copy.resident_ = nullptr;
  return copy;
}

void validate(const problem& given) {
  if (given.k < 1 || given.k >= std::int64_t{1} << 31) {
    throw error(error_kind::parameter, "k", -1, "k must be at least 1 and below 2**31, got " + std::to_string(given.k));
  }
  if (given.op == operation::spmv && given.k != 1) {
    throw error(error_kind::parameter, "k", -1,
                "k must be 1 for SpMV, got " + std::to_string(given.k) + "; op='spmm' multiplies several columns");
  }
  if (given.precision == product_precision::tf32 && given.dtype() != value_type::float32) {
    throw error(error_kind::parameter, "precision", -1,
                std::string("precision 'tf32' is for float32, and the product is in ") + name_of(given.dtype()));
  }
  const auto works = [&](value_type dtype) {
    const auto all = kernels(given.op);
    return std::any_of(all.begin(), all.end(), [&](const product_kernel& kernel) { return kernel.works_on(dtype); });
  };
  if (works(given.dtype())) return;
  std::string known;
  for (const value_type dtype : {value_type::float16, value_type::bfloat16, value_type::float32, value_type::float64}) {
    if (works(dtype)) known += (known.empty() ? "" : ", ") + std::string(name_of(dtype));
  }
  throw error(error_kind::dtype, "dtype", -1,
              std::string(name_of(given.op)) + " works on " + known + ", not on " + name_of(given.dtype()));
}

plan::plan(const problem& of, candidate chosen, std::unique_ptr<product_plan> prepared,
           std::vector<preparation_step> preparation)
    : chosen_(std::move(chosen)),
      prepared_(std::move(prepared)),
      preparation_(std::move(preparation)),
      op_(of.op),
      num_rows_(of.num_rows()),
      num_cols_(of.num_cols()),
      nnz_(of.nnz()),
      dtype_(of.dtype()),
      order_(of.order),
      device_(of.device) {
  if (device_ < 0) return;
  streams_ = std::make_unique<stream_order>();
  if (chosen_.kernel != nullptr && !chosen_.kernel->vendor) replays_ = std::make_unique<product_replays>();
  release_kept();
}

plan::~plan() {
  if (!ran_elsewhere_) return;
  try {
    const device_guard guard(device_);
    release_after_work(device_, updates_.release(), [](void* p) { delete static_cast<value_updates*>(p); });
    release_after_work(device_, prepared_.release(), [](void* p) { delete static_cast<product_plan*>(p); });
  } catch (const error&) {
    // There is nothing to wait for on a device that has failed.
  }
}

void plan::check_operands(const dense_view& B, const dense_view& C) const {
  check_shape(B, num_cols_, B.num_cols, "B");
  check_shape(C, num_rows_, B.num_cols, "C");
  if (op_ == operation::spmm || B.num_cols == 1) return;
  throw error(error_kind::shape, "B", -1, "an SpMV plan multiplies one vector, got " + std::to_string(B.num_cols));
}

class plan::turn {
 public:
  // `complete`: what is enqueued is done before the turn ends.
  turn(plan& of, CUstream_st* stream, bool complete = false) : streams_(of.streams_.get()), stream_(stream) {
    if (of.device_ < 0) return;
    guard_.emplace(of.device_);
    of.ran_elsewhere_ = of.ran_elsewhere_ || (stream != of.stream_ && !complete);
    streams_->enter(stream);
  }
  ~turn() {
    if (streams_ != nullptr) streams_->leave(stream_);
  }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

 private:
  std::optional<device_guard> guard_;
  stream_order* streams_;
  CUstream_st* stream_;
};

template <class Enqueue>
void plan::enqueue(const product_call& call, CUstream_st* stream, const Enqueue& work) {
  if (replays_) return replays_->enqueue(call, stream, work);
  work(stream);
}

void plan::in_order(CUstream_st* stream, const std::function<void()>& enqueue) {
  const turn on_gpu(*this, stream);
  enqueue();
}

std::size_t plan::num_recorded() const { return replays_ ? replays_->num_recorded() : 0; }

void plan::multiply(const dense_view& B, const dense_view& C, CUstream_st* stream) {
  check_operands(B, C);
  const turn on_gpu(*this, stream);
  enqueue({B, C}, stream, [&](CUstream_st* on) { prepared_->run(B, C, on); });
}

void plan::multiply(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) {
  check_operands(B, C);
  const turn on_gpu(*this, stream);
  enqueue({B, C, by}, stream, [&](CUstream_st* on) { run(B, C, by, on); });
}

void plan::multiply_on_host(const dense_view& B, const dense_view& C) { multiply_on_host(B, C, {}); }

void plan::multiply_on_host(const dense_view& B, const dense_view& C, const epilogue& by) {
  check_operands(B, C);
  const std::lock_guard<process_mutex> one_at_a_time(running_);
  if (device_ < 0) return run_on_cpu(*prepared_, B, C, by);
  if (multiplies_on_host(B.num_cols)) return run_on_cpu(on_host_->on_cpu(), B, C, by);
  run_staged(B, C, by);
}

bool plan::multiplies_on_host(std::int64_t columns) const {
  return device_ < 0 || (on_host_ != nullptr && on_host_->is_quicker(columns));
}

void plan::multiply_small_on_host(std::unique_ptr<host_product> by) { on_host_ = std::move(by); }

void plan::run_on_cpu(product_plan& prepared, const dense_view& B, const dense_view& C, const epilogue& by) const {
  if (by.changes_nothing()) return prepared.run(B, C, nullptr);
  if (C.num_rows == 0 || C.num_cols == 0) return;
  run_then_finish_on_cpu(prepared, B, {C, order_, dtype_, by});
}

void plan::run(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) {
  if (device_ < 0) return run_on_cpu(*prepared_, B, C, by);
  if (by.changes_nothing()) return prepared_->run(B, C, stream);
  if (C.num_rows == 0 || C.num_cols == 0) return;
  const finished_product finished{C, order_, dtype_, by};
  auto* const finishes = by.alpha == 0 ? nullptr : dynamic_cast<finishing_plan*>(prepared_.get());
  if (finishes && finishes->run_finished(B, C, by, stream)) return;
  run_then_finish_on_gpu(*prepared_, B, finished, stream);
}

void plan::check_dot(const dense_view& x, const dense_view& y) const {
  check_operands(x, y);
  if (num_rows_ != num_cols_) {
    throw error(error_kind::shape, "A", -1,
                "x . A x is of a square matrix, got shape " + shape_of(num_rows_, num_cols_));
  }
  check_shape(x, num_cols_, 1, "x");
}

void plan::multiply_with_dot(const dense_view& x, const dense_view& y, void* dot, CUstream_st* stream) {
  check_dot(x, y);
  const turn on_gpu(*this, stream);
  if (device_ < 0) {
    prepared_->run(x, y, nullptr);
    return dot_on_cpu(x, y, order_, dtype_, dot);
  }
  enqueue({x, y, {}, dot}, stream, [&](CUstream_st* on) {
    auto* const finishes = dynamic_cast<finishing_plan*>(prepared_.get());
    if (finishes && finishes->run_with_dot(x, y, dot, on)) return;
    prepared_->run(x, y, on);
    dot_on_gpu(x, y, order_, dtype_, dot, on);
  });
}

void plan::multiply_with_dot_on_host(const dense_view& x, const dense_view& y, void* dot) {
  check_dot(x, y);
  multiply_on_host(x, y);
  dot_on_cpu(x, y, order_, dtype_, dot);
}

// Allocating memory takes longer than a small product does, so what small operands need is kept.
plan::staging plan::make_staging(staging& kept, std::size_t bytes) {
  constexpr std::size_t smallest = 4096, largest = std::size_t{1} << 20;
  if (bytes > largest) return {bytes, borrow_device_memory(bytes), nullptr};
  if (kept.bytes < bytes) {
    const std::size_t size = std::max(smallest, std::bit_ceil(bytes));
    kept = {size, allocate_device_memory(size), allocate_pinned_memory(size)};
  }
  return kept;
}

// Padding between columns or rows of C may be overwritten only with what it held, so C travels both ways if it has any.
void plan::run_staged(const dense_view& B, const dense_view& C, const epilogue& by) {
  const turn on_gpu(*this, nullptr, /*complete=*/true);
  const std::size_t B_bytes = span_bytes(B, order_, dtype_), C_bytes = span_bytes(C, order_, dtype_);
  const staging B_there = make_staging(staged_B_, B_bytes), C_there = make_staging(staged_C_, C_bytes);
  const std::int64_t tight = order_ == layout::row_major ? C.num_cols : C.num_rows;
  const bool sends_C = C.leading_dimension != tight || by.beta != 0;
  epilogue there = by;
  std::shared_ptr<void> bias;
  if (by.bias != nullptr) {
    const std::size_t bytes = (by.bias_is_column ? C.num_rows : C.num_cols) * size_of(dtype_);
    bias = allocate_device_memory(bytes);
    copy_to_device(bias.get(), by.bias, bytes, nullptr);
    there.bias = bias.get();
  }
  const auto send = [](const staging& to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    if (!to.pinned) return upload(to.device.get(), from, bytes);
    std::memcpy(to.pinned.get(), from, bytes);
  };
  send(B_there, B.data, B_bytes);
  if (sends_C) send(C_there, C.data, C_bytes);
  const product_call call{{B_there.device.get(), B.num_rows, B.num_cols, B.leading_dimension},
                          {C_there.device.get(), C.num_rows, C.num_cols, C.leading_dimension},
                          there,
                          nullptr,
                          B_there.pinned.get(),
                          C_there.pinned.get()};
  const auto work = [&](CUstream_st* on) {
    if (B_there.pinned) copy_from_pinned(B_there.device.get(), B_there.pinned.get(), B_bytes, on);
    if (sends_C && C_there.pinned) copy_from_pinned(C_there.device.get(), C_there.pinned.get(), C_bytes, on);
    run(call.B, call.C, there, on);
    if (C_there.pinned) copy_to_pinned(C_there.pinned.get(), C_there.device.get(), C_bytes, on);
  };
  if (B_there.pinned && C_there.pinned) {
    enqueue(call, nullptr, work);
  } else {
    work(nullptr);
  }
  if (!C_there.pinned) return download(C.data, C_there.device.get(), C_bytes);
  synchronize(nullptr);
  if (C_bytes > 0) std::memcpy(C.data, C_there.pinned.get(), C_bytes);
}

void plan::make_updatable(const problem& of, const kernel_inputs& inputs) {
  const auto start = std::chrono::steady_clock::now();
  try {
    updates_ = prepare_updates(of, chosen_, perm_, inputs, prepared_);
    choosing_.push_back({"updating", 0});
  } catch (const std::bad_alloc&) {
    throw error(error_kind::out_of_memory, "updatable", -1, "what updating values needs does not fit into memory");
  }
  perm_ = {};
  const auto taken = std::chrono::steady_clock::now() - start;
  choosing_.back().milliseconds = std::chrono::duration<double, std::milli>(taken).count();
}

value_updates& plan::updates() const {
  if (updates_) return *updates_;
  throw error(error_kind::parameter, "updatable", -1, "this plan keeps its values; plan with updatable=True");
}

void plan::update(value_updates& by, const void* data, CUstream_st* stream) {
  const product_plan* const before = prepared_.get();
  by.update(prepared_, data, stream);
  if (prepared_.get() == before) return;
  ++version_;
  if (replays_) replays_->forget();
}

void plan::update_values(const void* data, CUstream_st* stream) {
  value_updates& updates = this->updates();
  const turn on_gpu(*this, stream);
  update(updates, data, stream);
}

void plan::update_values_on_host(const void* data) {
  value_updates& updates = this->updates();
  const std::lock_guard<process_mutex> one_at_a_time(running_);
  if (device_ < 0) return update(updates, data, nullptr);
  const turn on_gpu(*this, nullptr, /*complete=*/true);
  const std::size_t bytes = nnz_ * size_of(dtype_);
  if (bytes == 0) return;
  const std::shared_ptr<void> there = borrow_device_memory(bytes);
  upload(there.get(), data, bytes);
  update(updates, there.get(), nullptr);
  synchronize(nullptr);
}

std::size_t plan::bytes() const {
  const std::lock_guard<process_mutex> one_at_a_time(running_);  // an update may replace what is prepared
  return prepared_->bytes() + (updates_ ? updates_->bytes() : 0);
}

std::vector<double> plan::time(const dense_view& B, const dense_view& C, CUstream_st* stream,
                               const timing_options& options) {
  check_operands(B, C);
  const device_guard guard(device_);
  return time_on_device([&](CUstream_st* s) { prepared_->run(B, C, s); }, options, stream);
}

std::vector<double> plan::time_conversion(const timing_options& options) {
  if (updates_) return {};  // what it was converted from may have had other values
  const device_guard guard(device_);
  return prepared_->time_conversion(options);
}

double plan::preparation_ms() const {
  double total = 0;
  for (const preparation_step& step : preparation_) total += step.milliseconds;
  return total;
}

std::vector<preparation_step> plan::spent() const {
  std::vector<preparation_step> steps = choosing_;
  for (const preparation_step& step : preparation_) {
    const auto known = std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.name == step.name; });
    if (known == steps.end()) {
      steps.push_back(step);
    } else {
      known->milliseconds += step.milliseconds;
    }
  }
  return steps;
}

const explanation& plan::why() {
  const std::lock_guard<process_mutex> one_at_a_time(explaining_);
  if (why_) return *why_;
  if (explain_) {
    explanation found = explain_();
    found.spent = spent();
    found.small_on_host = on_host_ != nullptr;
    why_ = std::make_unique<const explanation>(std::move(found));
    explain_ = nullptr;  // it may hold the matrix
    return *why_;
  }
  explanation named;
  named.chosen = named.baseline = chosen_.name();
  candidate_row row{named.chosen};
  row.preparation_ms = preparation_ms();
  {
    const std::lock_guard<process_mutex> not_while_updating(running_);
    row.bytes = prepared_->bytes();
  }
  row.note = "named by the caller";
  named.rows.push_back(row);
  named.spent = spent();
  named.small_on_host = on_host_ != nullptr;
  why_ = std::make_unique<const explanation>(std::move(named));
  return *why_;
}

}  // namespace warploom
