// The vendor's sampled product, preprocessed: a baseline beside being a candidate.
#include "device/runtime.hpp"
#include "kernels/cusparse/api.hpp"
#include "kernels/cusparse/dense_operand.hpp"
#include "kernels/sampled/prepared_product.hpp"

namespace warploom {
namespace {

namespace api = cuda::cusparse;

class cusparse_sampled_product final : public prepared_sampled_product {
 public:
  cusparse_sampled_product(const device_csr_arrays& pattern, std::int64_t nnz, value_type dtype)
      : pattern_(pattern), nnz_(nnz), dtype_(dtype) {}
  ~cusparse_sampled_product() override {
    if (result_ != nullptr) api::api().DestroySpMat(result_);
  }
  cusparse_sampled_product(const cusparse_sampled_product&) = delete;
  cusparse_sampled_product& operator=(const cusparse_sampled_product&) = delete;

  std::size_t bytes() const override { return buffer_.bytes(); }

  void run(const dense_view& X, const dense_view& Y, value_type, void* out, CUstream_st* stream) override {
    if (nnz_ == 0 || X.num_cols == 0) {
      if (nnz_ > 0) WARPLOOM_CUDA_CHECK(cudaMemsetAsync(out, 0, nnz_ * size_of(dtype_), stream));
      return;
    }
    const api::handle handle = api::current_handle();
    WARPLOOM_CUSPARSE_CHECK(SetStream, handle, stream);
    const cudaDataType type = api::data_type(dtype_);
    const api::dense_operand x(X, layout::row_major, type);
    const api::dense_operand y(Y, layout::row_major, type);
    const api::factors factors(dtype_);
    give_result(out);
    if (prepared_columns_ != X.num_cols) {
      std::size_t size = 0;
      WARPLOOM_CUSPARSE_CHECK(SDDMM_bufferSize, handle, api::non_transpose, api::transpose, factors.one(), x, y,
                              factors.zero(), result_, factors.type(), api::sddmm_default, &size);
      if (size > buffer_.size()) buffer_ = {size, allocate_device_memory};
      WARPLOOM_CUSPARSE_CHECK(SDDMM_preprocess, handle, api::non_transpose, api::transpose, factors.one(), x, y,
                              factors.zero(), result_, factors.type(), api::sddmm_default, buffer_.data());
      prepared_columns_ = X.num_cols;
    }
    WARPLOOM_CUSPARSE_CHECK(SDDMM, handle, api::non_transpose, api::transpose, factors.one(), x, y, factors.zero(),
                            result_, factors.type(), api::sddmm_default, buffer_.data());
  }

 private:
  // The library takes no matrix without values.
  void give_result(void* out) {
    if (result_ != nullptr) {
      WARPLOOM_CUSPARSE_CHECK(SpMatSetValues, result_, out);
      return;
    }
    WARPLOOM_CUSPARSE_CHECK(
        CreateCsr, &result_, pattern_.num_rows, pattern_.num_cols, nnz_, const_cast<void*>(pattern_.indptr),
        const_cast<void*>(pattern_.indices), out, pattern_.wide_indptr ? api::index_int64 : api::index_int32,
        pattern_.wide_indices ? api::index_int64 : api::index_int32, api::base_zero, api::data_type(dtype_));
  }

  device_csr_arrays pattern_;
  std::int64_t nnz_;
  value_type dtype_;
  cuda::device_array<std::byte> buffer_;
  api::sparse_descriptor result_ = nullptr;
  std::int64_t prepared_columns_ = -1;  // the buffer and the preprocessing are for this many columns
};

}  // namespace

std::unique_ptr<prepared_sampled_product> prepare_vendor_sampled_product(const device_csr_arrays& pattern,
                                                                         std::int64_t nnz, value_type dtype) {
  const api::functions& functions = api::api();
  if (functions.SDDMM == nullptr || functions.SpMatSetValues == nullptr || functions.SDDMM_bufferSize == nullptr ||
      functions.SDDMM_preprocess == nullptr) {
    throw error(error_kind::device, "cusparse", -1, "this cuSPARSE has no sampled product");
  }
  if (dtype == value_type::bfloat16) {
    throw error(error_kind::parameter, "candidate", -1, "the sampled product of cuSPARSE does not work on bfloat16");
  }
  return std::make_unique<cusparse_sampled_product>(pattern, nnz, dtype);
}

}  // namespace warploom
