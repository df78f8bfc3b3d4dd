// SpMM as a dense product by cuBLAS. Its matrices are column-major: in row-major order C^T = B^T A^T is computed of
// arrays that are B^T, A^T and C^T for it, in column-major order C = A B of the transpose of what is A^T for it.
//
// The library chooses an algorithm for each shape of the operands, and the plan keeps what it chose. Sums of parts of
// rows of A are kept in a workspace of the plan, which it takes when it is made, as large as the algorithm for the
// operands it is made for needs; for others the library finds one that makes do with it.
//
// Its kernels for tensor cores load and store 16 bytes at once. Where rows of B or C do not begin on 16 bytes (columns
// in column-major order), or rows of A do not end so, it takes others, which need up to seven times as long: the
// product is computed from copies that do, if it is so large that they pay. Rows of A are filled up with zeros, and as
// many rows of zeros are put below B; in column-major order, as many rows of zeros are below A as C has rows too few.
#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/cublas/api.hpp"
#include "kernels/dense/aligned_copy.hpp"
#include "kernels/dense/device_dense.hpp"
#include "kernels/description.hpp"
#include "kernels/finishing.hpp"
#include "kernels/spmm/padded_copy.hpp"
#include "warploom/cublas.hpp"

namespace warploom {
namespace {

namespace api = cuda::cublas;

constexpr std::size_t largest_workspace = std::size_t{32} << 20;
constexpr std::uint32_t best_alignment = 256;  // bytes

cudaDataType data_type(value_type dtype) {
  switch (dtype) {
    case value_type::float16:
      return CUDA_R_16F;
    case value_type::bfloat16:
      return CUDA_R_16BF;
    case value_type::float32:
      return CUDA_R_32F;
    default:
      return CUDA_R_64F;
  }
}

api::compute_type compute_type_of(value_type dtype, product_precision precision) {
  if (dtype == value_type::float64) return api::compute_float64;
  return precision == product_precision::tf32 ? api::compute_tf32 : api::compute_float32;
}

std::uint32_t alignment_of(const void* address) {
  return cuda::alignment_of_bytes(reinterpret_cast<std::uintptr_t>(address), best_alignment);
}

// What the choice of an algorithm depends on, beside the matrix.
struct operands {
  std::int64_t columns;
  std::int64_t rows_of_B;
  std::int64_t rows_of_C;
  std::int64_t ldb;
  std::int64_t ldc;
  std::uint32_t alignment_of_B;
  std::uint32_t alignment_of_C;

  bool operator==(const operands&) const = default;
};

class cublas_plan final : public product_plan, public finishing_plan {
 public:
  cublas_plan(cuda::device_dense matrix, std::int64_t nnz, const product_request& request, product_precision precision,
              const device_allocator& allocate)
      : matrix_(std::move(matrix)),
        empty_(nnz == 0),
        order_(request.order),
        dtype_(matrix_.shape().dtype),
        uses_tensor_cores_(dtype_ != value_type::float32 || precision == product_precision::tf32),
        device_(api::current_handle()) {
    if (empty_) return;
    const dense_shape& A = matrix_.shape();
    WARPLOOM_CUBLAS_CHECK(MatmulDescCreate, product_.to_create(), compute_type_of(dtype_, precision), factor_type());
    if (order_ == layout::column_major) {
      const std::int32_t how = api::transpose;
      WARPLOOM_CUBLAS_CHECK(MatmulDescSetAttribute, product_, api::transpose_first, &how, sizeof(how));
    }
    if (request.k == 0) return;
    const auto whole = [&](std::int64_t rows) {
      return dense_view{nullptr, rows, request.k, order_ == layout::row_major ? request.k : rows};
    };
    const dense_view B = whole(A.num_cols), C = whole(A.num_rows);
    const auto [B_is_copied, C_is_copied] = copied(B, C);
    const std::lock_guard<std::mutex> lock(device_.using_it);
    const found* const chosen = choose(seen(B_is_copied ? shape_of_copy(B, rows_of_copied_B()) : B,
                                            C_is_copied ? shape_of_copy(C, rows_of_copied_C()) : C),
                                       largest_workspace);
    if (chosen == nullptr) refuse_candidate(label(precision), "is not supported by cuBLAS for these operands");
    workspace_ = {chosen->result.workspace_bytes, allocate};
  }

  static std::string label(product_precision precision) {
    return precision == product_precision::tf32 ? "dense/cublas_tf32" : "dense/cublas";
  }

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    if (empty_) return clear(C, stream);
    multiply_aligned(B, C, 1, 0, stream);
  }

  bool run_finished(const dense_view& B, const dense_view& C, const epilogue& by, CUstream_st* stream) override {
    if (empty_ || by.bias != nullptr || by.then != activation::none) return false;
    multiply_aligned(B, C, by.alpha, by.beta, stream);
    return true;
  }

  std::size_t bytes() const override { return matrix_.bytes() + workspace_.bytes(); }
  std::vector<value_array> value_arrays() override { return {matrix_.all_values()}; }

 private:
  struct found {
    operands of;
    api::owned_layout stored;  // A^T, for the library
    api::owned_layout B;
    api::owned_layout C;
    api::heuristic_result result{};
  };

  struct copied_operands {
    bool B = false;
    bool C = false;
  };

  cudaDataType factor_type() const { return dtype_ == value_type::float64 ? CUDA_R_64F : CUDA_R_32F; }

  void clear(const dense_view& C, cudaStream_t stream) const {
    const bool by_rows = order_ == layout::row_major;
    const std::size_t size = size_of(dtype_);
    const std::int64_t width = by_rows ? C.num_cols : C.num_rows;
    const std::int64_t height = by_rows ? C.num_rows : C.num_cols;
    const std::int64_t pitch = height == 1 ? width : C.leading_dimension;
    WARPLOOM_CUDA_CHECK(cudaMemset2DAsync(C.data, pitch * size, 0, width * size, height, stream));
  }

  // Null if the library has no algorithm. Called by the thread that uses the handle.
  const found* choose(const operands& of, std::size_t workspace_bytes) {
    const auto known = std::find_if(chosen_.begin(), chosen_.end(), [&](const found& f) { return f.of == of; });
    if (known != chosen_.end()) return &*known;
    const dense_shape& A = matrix_.shape();
    const bool by_rows = order_ == layout::row_major;
    found made{of, {}, {}, {}};
    WARPLOOM_CUBLAS_CHECK(MatrixLayoutCreate, made.stored.to_create(), data_type(dtype_), of.rows_of_B, of.rows_of_C,
                          A.leading_dimension());
    const auto create = [&](api::owned_layout& matrix, std::int64_t rows, std::int64_t leading_dimension) {
      WARPLOOM_CUBLAS_CHECK(MatrixLayoutCreate, matrix.to_create(), data_type(dtype_), by_rows ? of.columns : rows,
                            by_rows ? rows : of.columns, leading_dimension);
    };
    create(made.B, of.rows_of_B, of.ldb);
    create(made.C, of.rows_of_C, of.ldc);
    api::owned_preference preference;
    WARPLOOM_CUBLAS_CHECK(MatmulPreferenceCreate, preference.to_create());
    const auto prefer = [&](api::preference_attribute what, auto value) {
      WARPLOOM_CUBLAS_CHECK(MatmulPreferenceSetAttribute, preference, what, &value, sizeof(value));
    };
    prefer(api::max_workspace_bytes, std::uint64_t{workspace_bytes});
    prefer(api::reduction_scheme_mask, std::uint32_t{api::sums_in_order});
    prefer(by_rows ? api::alignment_of_first : api::alignment_of_second, of.alignment_of_B);
    prefer(by_rows ? api::alignment_of_second : api::alignment_of_first, alignment_of(matrix_.values()));
    prefer(api::alignment_of_addend, of.alignment_of_C);
    prefer(api::alignment_of_result, of.alignment_of_C);
    std::array<api::heuristic_result, 8> results{};
    int count = 0;
    // Not having an algorithm is an error for the library, too.
    api::api().MatmulAlgoGetHeuristic(device_.handle, product_, first(made), second(made), made.C, made.C, preference,
                                      static_cast<int>(results.size()), results.data(), &count);
    const auto* const best = std::find_if(results.begin(), results.begin() + count,
                                          [](const api::heuristic_result& r) { return r.state == api::success; });
    if (best == results.begin() + count) return nullptr;
    made.result = *best;
    constexpr std::size_t most_kept = 16;
    if (chosen_.size() == most_kept) chosen_.pop_front();
    chosen_.push_back(std::move(made));
    return &chosen_.back();
  }

  api::matrix_layout* first(const found& f) const { return order_ == layout::row_major ? f.B : f.stored; }
  api::matrix_layout* second(const found& f) const { return order_ == layout::row_major ? f.stored : f.B; }

  std::int64_t value_bytes() const { return static_cast<std::int64_t>(size_of(dtype_)); }

  std::int64_t rows_of_copied_B() const { return cuda::filled_up(matrix_.shape().num_cols, value_bytes()); }
  std::int64_t rows_of_copied_C() const {
    const std::int64_t rows = matrix_.shape().num_rows;
    return order_ == layout::column_major ? cuda::filled_up(rows, value_bytes()) : rows;
  }

  dense_view shape_of_copy(const dense_view& operand, std::int64_t rows) const {
    return cuda::aligned_shape(operand, rows, order_, value_bytes());
  }

  // Measured on an H200 with tensor cores, for the least alignment of B and C.
  static constexpr double us_per_copy = 3;
  static constexpr double us_per_copied_byte = 0.6e-6;
  double us_saved_per_product(std::uint32_t alignment) const {
    if (value_bytes() == 2) return alignment < 8 ? 35e-9 : 5e-9;
    return value_bytes() == 4 ? 20e-9 : 13e-9;
  }

  copied_operands copied(const dense_view& B, const dense_view& C) const {
    const padded_copies when = when_copies_are_made();
    if (when == padded_copies::never || (when == padded_copies::where_they_pay && !uses_tensor_cores_)) return {};
    const dense_shape& A = matrix_.shape();
    const std::uint32_t of_A = cuda::alignment_of_bytes(static_cast<std::uint64_t>(A.num_cols * value_bytes()));
    const std::uint32_t of_B = std::min(of_A, cuda::alignment_of_rows(B, order_, value_bytes()));
    const std::uint32_t of_C = cuda::alignment_of_rows(C, order_, value_bytes());
    const copied_operands result{of_B < 16, of_C < 16};
    if (when == padded_copies::always || !(result.B || result.C)) return result;
    const auto products = static_cast<double>(A.places() * C.num_cols);
    const std::int64_t copied_rows = (result.B ? A.num_cols : 0) + (result.C ? A.num_rows : 0);
    const auto copied_bytes = static_cast<double>(copied_rows * C.num_cols * value_bytes());
    const double cost = us_per_copy * (result.B + result.C) + us_per_copied_byte * copied_bytes;
    const bool pays = us_saved_per_product(std::min(of_B, of_C)) * products > cost;
    return pays ? result : copied_operands{};
  }

  // From copies, where they pay and there is memory for them.
  void multiply_aligned(const dense_view& B, const dense_view& C, double alpha, double beta, cudaStream_t stream) {
    const auto [B_is_copied, C_is_copied] = copied(B, C);
    std::optional<cuda::aligned_copy> b, c;
    try {
      if (B_is_copied) b.emplace(B, rows_of_copied_B(), order_, value_bytes(), stream);
      if (C_is_copied) c.emplace(C, rows_of_copied_C(), order_, value_bytes(), stream);
    } catch (const error& failure) {
      if (failure.kind() != error_kind::out_of_memory) throw;
      return multiply(B, C, alpha, beta, stream);
    }
    if (b) b->take();
    if (c && beta != 0) c->take();
    multiply(b ? b->view() : B, c ? c->view() : C, alpha, beta, stream);
    if (c) c->give_back();
  }

  static operands seen(const dense_view& B, const dense_view& C) {
    return {C.num_cols,          B.num_rows,           C.num_rows,          B.leading_dimension,
            C.leading_dimension, alignment_of(B.data), alignment_of(C.data)};
  }

  void multiply(const dense_view& B, const dense_view& C, double alpha, double beta, cudaStream_t stream) {
    const operands of = seen(B, C);
    const bool by_rows = order_ == layout::row_major;
    const float alpha32 = static_cast<float>(alpha), beta32 = static_cast<float>(beta);
    const bool wide = dtype_ == value_type::float64;
    const void* const a = wide ? static_cast<const void*>(&alpha) : &alpha32;
    const void* const b = wide ? static_cast<const void*>(&beta) : &beta32;
    const std::lock_guard<std::mutex> lock(device_.using_it);
    const found* const how = choose(of, workspace_.size());
    if (how == nullptr) {
      throw error(error_kind::device, "", -1,
                  "cuBLAS has no algorithm for " + std::to_string(of.columns) + " columns with leading dimensions of " +
                      std::to_string(of.ldb) + " and " + std::to_string(of.ldc));
    }
    WARPLOOM_CUBLAS_CHECK(Matmul, device_.handle, product_, a, by_rows ? B.data : matrix_.values(), first(*how),
                          by_rows ? matrix_.values() : B.data, second(*how), b, C.data, how->C, C.data, how->C,
                          &how->result.how, workspace_.data(), how->result.workspace_bytes, stream);
  }

  cuda::device_dense matrix_;
  bool empty_;  // no nonzeros
  layout order_;
  value_type dtype_;
  bool uses_tensor_cores_;
  api::device_handle& device_;
  api::owned_description product_;
  cuda::device_array<std::byte> workspace_;
  std::list<found> chosen_;
};

std::string cublas_reason(value_type dtype, product_precision precision) {
  if (cublas_version().empty()) return "needs cuBLAS, which was not found";
  const bool needs_ampere = dtype == value_type::bfloat16 || precision == product_precision::tf32;
  if (needs_ampere && cuda::device_attribute(cudaDevAttrComputeCapabilityMajor) < 8) {
    return "needs a GPU of compute capability 8.0 or newer";
  }
  return "";
}

std::unique_ptr<product_plan> prepare(product_precision precision, const device_csr& matrix,
                                      const product_request& request, const device_allocator& allocate) {
  const std::string label = cublas_plan::label(precision);
  refuse_candidate(label, cublas_reason(matrix.dtype(), precision));
  const auto accept = [&](bool repeats) {
    if (repeats && size_of(matrix.dtype()) == 2) refuse_candidate(label, dense_repeats_reason());
  };
  const std::int64_t rows = matrix.num_rows();
  const std::int64_t below = request.order == layout::column_major
                                 ? cuda::filled_up(rows, static_cast<std::int64_t>(size_of(matrix.dtype()))) - rows
                                 : 0;
  cuda::device_dense dense(matrix, accept, allocate, below);
  dense.forget_occupied();
  return std::make_unique<cublas_plan>(std::move(dense), matrix.nnz(), request, precision, allocate);
}

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmm_dense_cublas(const device_csr& matrix, const product_request& request,
                                                             const device_allocator& allocate) {
  return prepare(product_precision::full, matrix, request, allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmm_dense_cublas_tf32(const device_csr& matrix,
                                                                  const product_request& request,
                                                                  const device_allocator& allocate) {
  return prepare(product_precision::tf32, matrix, request, allocate);
}

}  // namespace warploom
