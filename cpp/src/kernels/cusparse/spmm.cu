// The vendor's SpMM behind the same interface: CSR and COO, every algorithm, both layouts, preprocessed where the
// library offers it.
#include <memory>

#include "device/device_csr.hpp"
#include "kernels/cusparse/api.hpp"
#include "kernels/cusparse/dense_operand.hpp"
#include "kernels/description.hpp"

namespace warploom {
namespace {

namespace api = cuda::cusparse;

// The values of the parameter "algorithm"; 0 is the library's default.
api::spmm_algorithm csr_algorithm(int number) {
  constexpr api::spmm_algorithm algorithms[] = {api::spmm_default, api::spmm_csr_algorithm1, api::spmm_csr_algorithm2,
                                                api::spmm_csr_algorithm3};
  return algorithms[number];
}

api::spmm_algorithm coo_algorithm(int number) {
  constexpr api::spmm_algorithm algorithms[] = {api::spmm_default, api::spmm_coo_algorithm1, api::spmm_coo_algorithm2,
                                                api::spmm_coo_algorithm3, api::spmm_coo_algorithm4};
  return algorithms[number];
}

class cusparse_plan final : public product_plan {
 public:
  enum class sparse_format { csr, coo };

  cusparse_plan(const device_csr& matrix, const product_request& request, const device_allocator& allocate,
                sparse_format format)
      : num_rows_(matrix.num_rows()),
        order_(request.order),
        dtype_(matrix.dtype()),
        algorithm_(format == sparse_format::csr ? csr_algorithm(request.parameters.at("algorithm"))
                                                : coo_algorithm(request.parameters.at("algorithm"))),
        allocate_(allocate),
        csr_(matrix.kept(allocate)) {
    const device_csr& A = *csr_;
    if (format == sparse_format::csr) {
      WARPLOOM_CUSPARSE_CHECK(CreateCsr, &matrix_, num_rows_, A.num_cols(), A.nnz(), api::pointer(A.indptr32()),
                              api::pointer(A.indices()), api::pointer(A.values<std::byte>()), api::index_int32,
                              api::index_int32, api::base_zero, api::data_type(dtype_));
    } else {
      rows_ = cuda::row_indices_of(A, allocate);
      WARPLOOM_CUSPARSE_CHECK(CreateCoo, &matrix_, num_rows_, A.num_cols(), A.nnz(), rows_.data(),
                              api::pointer(A.indices()), api::pointer(A.values<std::byte>()), api::index_int32,
                              api::base_zero, api::data_type(dtype_));
    }
  }

  ~cusparse_plan() override { api::api().DestroySpMat(matrix_); }

  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    if (C.num_rows == 0 || C.num_cols == 0) return;
    const api::handle handle = api::current_handle();
    WARPLOOM_CUSPARSE_CHECK(SetStream, handle, stream);
    const api::dense_operand b(B, order_, api::data_type(dtype_));
    const api::dense_operand c(C, order_, api::data_type(dtype_));
    const api::factors factors(dtype_);
    const void* alpha = factors.one();
    const void* beta = factors.zero();
    constexpr auto plain = api::non_transpose;
    const operand_sizes sizes{C.num_cols, B.leading_dimension, C.leading_dimension};
    if (prepared_for_ != sizes) {
      std::size_t size = 0;
      WARPLOOM_CUSPARSE_CHECK(SpMM_bufferSize, handle, plain, plain, alpha, matrix_, b, beta, c, factors.type(),
                              algorithm_, &size);
      if (size > buffer_.size()) buffer_ = {size, allocate_};
      WARPLOOM_CUSPARSE_CHECK(SpMM_preprocess, handle, plain, plain, alpha, matrix_, b, beta, c, factors.type(),
                              algorithm_, buffer_.data());
      prepared_for_ = sizes;
    }
    WARPLOOM_CUSPARSE_CHECK(SpMM, handle, plain, plain, alpha, matrix_, b, beta, c, factors.type(), algorithm_,
                            buffer_.data());
  }

  std::size_t bytes() const override { return csr_->bytes() + rows_.bytes() + buffer_.bytes(); }
  // What the library finds out in advance is of the pattern alone, as its documentation has it.
  std::vector<value_array> value_arrays() override { return {csr_->all_values()}; }

 private:
  // What was preprocessed for operands of some sizes is not used with others: after a product with a single column of C
  // without gaps, one with gaps was wrong in CSR.
  struct operand_sizes {
    std::int64_t columns = -1;
    std::int64_t ldb = 0;
    std::int64_t ldc = 0;

    bool operator==(const operand_sizes&) const = default;
  };

  std::int64_t num_rows_;
  layout order_;
  value_type dtype_;
  api::spmm_algorithm algorithm_;
  device_allocator allocate_;
  std::shared_ptr<const device_csr> csr_;
  cuda::device_array<std::int32_t> rows_;  // of the nonzeros, for COO
  cuda::device_array<std::byte> buffer_;
  operand_sizes prepared_for_;  // the buffer and the preprocessing
  api::sparse_descriptor matrix_ = nullptr;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmm_csr_cusparse(const device_csr& matrix, const product_request& request,
                                                             const device_allocator& allocate) {
  return std::make_unique<cusparse_plan>(matrix, request, allocate, cusparse_plan::sparse_format::csr);
}

std::unique_ptr<product_plan> prepare_cuda_spmm_coo_cusparse(const device_csr& matrix, const product_request& request,
                                                             const device_allocator& allocate) {
  return std::make_unique<cusparse_plan>(matrix, request, allocate, cusparse_plan::sparse_format::coo);
}

}  // namespace warploom
