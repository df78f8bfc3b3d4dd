// What a product is planned for, and a plan: a candidate prepared for one matrix on one device.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "warploom/candidate.hpp"
#include "warploom/device.hpp"
#include "warploom/kernels/epilogue.hpp"
#include "warploom/kernels/product.hpp"
#include "warploom/permutation.hpp"
#include "warploom/process_mutex.hpp"

namespace warploom {

// What is to be multiplied, and where. Copies share the matrix.
class problem {
 public:
  problem() = default;
  // A validated matrix in host memory; its arrays are to outlive the problem and all plans made for it.
  explicit problem(const csr_view& matrix);
  // A matrix whose arrays somebody else has in the memory of a GPU: it stays there. They are to stay as they are until
  // all plans are made, which copy what they keep. Throws error_kind::invalid_matrix if they form no matrix.
  explicit problem(const device_csr_view& matrix, device_allocator memory = allocate_device_memory);

  operation op = operation::spmm;
  std::int64_t k = 1;                // columns of B, 1 for SpMV
  layout order = layout::row_major;  // of B and C; column-major for SpMV
  cache_state cache = cache_state::warm;
  // The least of candidates that are not named; tf32 is for float32 and has a meaning for SpMM only.
  product_precision precision = product_precision::full;
  int device = -1;                                     // number of a GPU; negative: the CPU
  device_allocator allocate = allocate_device_memory;  // memory of plans
  bool updatable = false;                              // plans can be given other values: see plan::update_values

  bool on_gpu() const { return device >= 0; }
  std::int64_t num_rows() const { return sizes_.num_rows; }
  std::int64_t num_cols() const { return sizes_.num_cols; }
  std::int64_t nnz() const { return sizes_.nnz; }
  value_type dtype() const { return sizes_.dtype; }
  // The matrix in host memory, where one that is on a GPU is copied when it is first asked for.
  const csr_view& matrix() const;
  // Computed once.
  const matrix_summary& summary() const;
  // The matrix in the memory of the GPU, uploaded once for all candidates; null on the CPU.
  std::shared_ptr<const device_csr> resident() const;
  // Whether `matrix` takes no copy.
  bool in_host_memory() const { return host_ != nullptr; }
  // A copy that holds no GPU memory. It has a matrix only if this one is in host memory.
  problem without_resident() const;

 private:
  matrix_summary sizes_;  // of the lengths of rows, nothing
  std::shared_ptr<const csr_view> host_;
  mutable std::shared_ptr<const matrix_summary> summary_;
  mutable std::shared_ptr<const device_csr> resident_;
};

// Throws what describes no product: k out of range, a value type that no kernel of the operation works on, TF32 of
// values that are not float32.
void validate(const problem& given);

// A part of what planning takes.
struct preparation_step {
  std::string name;  // "features", "ranking", "measuring", "permutation", "upload", "conversion"
  double milliseconds = 0;
};

// What is known of one candidate. Numbers that are not known are NaN.
struct candidate_row {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  std::string name{};
  double preparation_ms = unknown;  // permutation, conversion and upload
  double median_us = unknown;
  double p10_us = unknown;
  double p90_us = unknown;
  double speedup = unknown;      // over the baseline
  double floor_share = unknown;  // bandwidth floor over median time
  double predicted_us = unknown;
  // Products after which preparing it instead of the baseline, or of the vendor's fastest, has paid off, or infinity.
  double break_even = unknown;
  double break_even_vendor = unknown;
  std::size_t bytes = 0;  // of the plan on its device
  std::string note{};     // why it was not measured, or that it was chosen
};

// Why a plan is what it is.
struct explanation {
  enum class basis { named, measured, predicted };

  basis based_on = basis::named;
  std::vector<candidate_row> rows;  // fastest first
  std::string chosen;
  std::string baseline;
  std::string vendor;                   // the vendor's fastest candidate, or empty
  std::vector<preparation_step> spent;  // on this plan, choosing included
  std::int64_t lacked_memory = 0;       // candidates that were tried and did not fit into memory
  bool small_on_host = false;           // the CPU multiplies operands as small as these in host memory
  std::string not_measured;             // why nothing was measured although that was asked for, or empty

  // Of measurements.
  double budget = std::numeric_limits<double>::infinity();           // seconds
  double calls_of_budget = std::numeric_limits<double>::infinity();  // what it was a share of, on a CPU, or infinite
  double share_of_calls = candidate_row::unknown;                    // and the share
  std::int64_t left_out = 0;                                         // candidates for which there was no time
  std::int64_t floor_bytes = 0;                                      // product_floor_bytes
  double copy_bandwidth = candidate_row::unknown;                    // bytes per second

  // Of predictions.
  std::string gpu;              // whose profile predicted
  std::string profile_note;     // that it is another GPU's, or empty
  double share_of_network = 0;  // by how much a network counts beside trees
  std::string not_predicted;    // candidates that no model knows and that were not measured, or empty
  std::string stands_in;        // the value type whose model stood in for the problem's, or empty
  double calls = std::numeric_limits<double>::infinity();
  double expected_loss = 0;  // above the fastest, as a share of its time
  bool unsure = false;
  std::string outside;                       // what is outside the sizes that were measured, or empty
  std::vector<std::string> deciding_inputs;  // inputs of the model, the most important first
};

class host_product;
class product_replays;
struct product_call;
class stream_order;
class value_updates;

// A candidate prepared for one matrix on one device. One product is enqueued at a time; on whatever streams, they are
// computed one after the other, since they share the plan's workspace. In graphs whoever launches them sees to that.
//
// A product that comes again and again on a GPU, with operands and results in the same places, is launched as a CUDA
// graph that the plan keeps: four of them at most, of about 100 KB each.
class plan {
 public:
  // `chosen` may be empty for a kernel that is in no registry.
  plan(const problem& of, candidate chosen, std::unique_ptr<product_plan> prepared,
       std::vector<preparation_step> preparation);
  ~plan();

  // Enqueues C = A B on `stream`, for operands where the plan is: in GPU memory, or on the CPU, where the product is
  // complete on return. Throws error_kind::shape where shapes do not fit.
  void multiply(const dense_view& B, const dense_view& C, CUstream_st* stream = nullptr);
  // The same for operands in host memory, which a plan on a GPU copies there and back, or has the CPU multiply where it
  // was given what that takes. Complete on return, and safe to call from several threads. The plan keeps the memory
  // that small operands are copied through.
  void multiply_on_host(const dense_view& B, const dense_view& C);

  // C = activation(alpha A B + beta C + bias), where `by.bias` is where the operands are. In one launch if the kernel
  // stores each row of C in one place and knows how; otherwise passes over C follow the product.
  void multiply(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream = nullptr);
  void multiply_on_host(const dense_view& B, const dense_view& C, const epilogue& by);

  // y = A x and *dot = x . y for a square matrix, with the sum taken in float64, always in the same order. `dot` is
  // where x and y are: a double for values of float64, otherwise a float.
  void multiply_with_dot(const dense_view& x, const dense_view& y, void* dot, CUstream_st* stream = nullptr);
  void multiply_with_dot_on_host(const dense_view& x, const dense_view& y, void* dot);

  // Gives the matrix new values, [nnz] in the order of its `data`, as a product runs: `data` is where the plan is, and
  // on a GPU this is enqueued on `stream`; from host memory it is complete on return, and safe to call from several
  // threads. `data` is not referred to afterwards. Throws error_kind::parameter unless the plan is updatable.
  //
  // Where preparation adds up values, as BSR does with entries that repeat, the matrix is converted again instead. That
  // takes as long as the first time, and is complete on return.
  void update_values(const void* data, CUstream_st* stream = nullptr);
  void update_values_on_host(const void* data);
  bool updatable() const { return updates_ != nullptr; }

  // Microseconds of each repeat between events on the GPU; see time_on_device.
  std::vector<double> time(const dense_view& B, const dense_view& C, CUstream_st* stream,
                           const timing_options& options);
  std::vector<double> time_conversion(const timing_options& options);

  const candidate& chosen() const { return chosen_; }
  product_plan& kernel_plan() { return *prepared_; }
  product_precision precision() const {  // of what was chosen
    return chosen_.kernel == nullptr ? product_precision::full : chosen_.kernel->precision;
  }
  // Permutation, upload and conversion.
  const std::vector<preparation_step>& preparation() const { return preparation_; }
  double preparation_ms() const;
  // Everything that planning took: choosing, and the preparation.
  std::vector<preparation_step> spent() const;
  void chosen_in(std::vector<preparation_step> choosing) { choosing_ = std::move(choosing); }
  std::size_t bytes() const;  // on its device, with what updating values takes
  operation op() const { return op_; }
  std::int64_t num_rows() const { return num_rows_; }
  std::int64_t num_cols() const { return num_cols_; }
  value_type dtype() const { return dtype_; }
  layout order() const { return order_; }
  std::int64_t nnz() const { return nnz_; }
  int device() const { return device_; }
  // For whoever enqueues several products and more as one piece of work, on `stream`: it is enqueued as a product is,
  // in the order of all work that uses the plan.
  void in_order(CUstream_st* stream, const std::function<void()>& enqueue);
  // Changes when memory that products refer to is no longer there.
  std::int64_t version() const { return version_; }
  // Products that are launched as graphs from now on.
  std::size_t num_recorded() const;
  // Whether the CPU multiplies so many columns in host memory.
  bool multiplies_on_host(std::int64_t columns) const;

  // For whoever plans: the stream that the memory of the plan is ordered on.
  void ordered_on(CUstream_st* stream) { stream_ = stream; }
  // Operands in host memory for which it is quicker are multiplied by the CPU from now on. Null: none.
  void multiply_small_on_host(std::unique_ptr<host_product> by);
  // What make_updatable needs is kept until then, and dropped there. A plan for which it throws is
  // not to be used.
  void keep_permutation(const row_permutation& perm) { perm_ = perm; }
  void make_updatable(const problem& of, const kernel_inputs& inputs);

  // Made when it is first asked for: that can take longer than the choice. Safe to call from several threads.
  const explanation& why();
  void explain_by(std::function<explanation()> explain) { explain_ = std::move(explain); }

 private:
  // Where an operand in host memory is copied to.
  struct staging {
    std::size_t bytes = 0;
    std::shared_ptr<void> device{};
    std::shared_ptr<void> pinned{};  // between the operand and the device; null: other memory is
  };

  value_updates& updates() const;
  void update(value_updates& by, const void* data, CUstream_st* stream);
  void check_operands(const dense_view& B, const dense_view& C) const;
  static staging make_staging(staging& kept, std::size_t bytes);
  void check_dot(const dense_view& x, const dense_view& y) const;
  template <class Enqueue>
  void enqueue(const product_call& call, CUstream_st* stream, const Enqueue& work);
  // Where work is enqueued, for as long as it lives.
  class turn;
  void run(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream);
  void run_on_cpu(product_plan& prepared, const dense_view& B, const dense_view& C, const epilogue& by) const;
  void run_staged(const dense_view& B, const dense_view& C, const epilogue& by);

  candidate chosen_;
  std::unique_ptr<product_plan> prepared_;
  std::unique_ptr<value_updates> updates_;  // null: values stay as they are
  std::unique_ptr<host_product> on_host_;   // guarded by running_; null: all operands go to the GPU
  row_permutation perm_;                    // until make_updatable
  std::vector<preparation_step> preparation_;
  std::vector<preparation_step> choosing_;
  operation op_;
  std::int64_t num_rows_, num_cols_, nnz_;
  value_type dtype_;
  layout order_;
  int device_;
  CUstream_st* stream_ = nullptr;
  std::unique_ptr<stream_order> streams_;     // null on the CPU
  std::unique_ptr<product_replays> replays_;  // null on the CPU, and for kernels of others
  std::int64_t version_ = 0;
  bool ran_elsewhere_ = false;  // on another stream: a framework may hand out the memory before that is done
  mutable process_mutex running_;
  staging staged_B_, staged_C_;  // guarded by running_
  process_mutex explaining_;
  std::function<explanation()> explain_;      // guarded by explaining_
  std::unique_ptr<const explanation> why_{};  // likewise
};

}  // namespace warploom
