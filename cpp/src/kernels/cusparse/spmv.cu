// The vendor's SpMV behind the same interface: CSR, COO, sliced ELL and BSR, every algorithm, preprocessed where the
// library offers it.
#include <algorithm>
#include <vector>

#include "device/device_csr.hpp"
#include "kernels/cusparse/api.hpp"
#include "kernels/cusparse/dense_operand.hpp"
#include "kernels/description.hpp"
#include "kernels/sell/device_sell.hpp"
#include "kernels/sell/slice_height.hpp"
#include "kernels/spmv_plan.hpp"
#include "warploom/formats/bsr.hpp"

namespace warploom {
namespace {

namespace api = cuda::cusparse;

class vector_operand {
 public:
  vector_operand(std::int64_t size, const void* values, cudaDataType type) {
    WARPLOOM_CUSPARSE_CHECK(CreateDnVec, &handle_, size, const_cast<void*>(values), type);
  }
  ~vector_operand() { api::api().DestroyDnVec(handle_); }
  vector_operand(const vector_operand&) = delete;
  vector_operand& operator=(const vector_operand&) = delete;
  operator api::vector_descriptor() const { return handle_; }

 private:
  api::vector_descriptor handle_ = nullptr;
};

// A matrix as the library sees it, with the memory it refers to.
struct vendor_matrix {
  std::shared_ptr<const device_csr> csr;  // null if nothing of it is used
  cuda::device_slices slices;
  cuda::device_array<std::int32_t> rows;  // offsets or row indices that are not those of `csr`
  cuda::device_array<std::int32_t> indices;
  cuda::device_array<std::byte> data;
  api::sparse_descriptor handle = nullptr;

  vendor_matrix() = default;
  vendor_matrix(vendor_matrix&& other) noexcept
      : csr(std::move(other.csr)),
        slices(std::move(other.slices)),
        rows(std::move(other.rows)),
        indices(std::move(other.indices)),
        data(std::move(other.data)),
        handle(std::exchange(other.handle, nullptr)) {}
  vendor_matrix& operator=(vendor_matrix&&) = delete;
  ~vendor_matrix() {
    if (handle != nullptr) api::api().DestroySpMat(handle);
  }
  value_array all_values(value_type dtype) const {
    if (csr) return csr->all_values();
    if (slices.places() > 0) return slices.all_values();
    return {data.data(), static_cast<std::int64_t>(data.size() / size_of(dtype))};
  }
  std::size_t bytes() const {
    return (csr ? csr->bytes() : 0) + slices.bytes() + rows.bytes() + indices.bytes() + data.bytes();
  }
};

class cusparse_plan final : public spmv_plan {
 public:
  cusparse_plan(const device_csr& shape, vendor_matrix matrix, api::spmv_algorithm algorithm,
                const device_allocator& allocate)
      : num_rows_(shape.num_rows()),
        num_cols_(shape.num_cols()),
        dtype_(shape.dtype()),
        algorithm_(algorithm),
        allocate_(allocate),
        matrix_(std::move(matrix)) {}

  void multiply(const void* x_values, void* y_values, CUstream_st* stream) override {
    if (num_rows_ == 0) return;
    const api::handle handle = api::current_handle();
    WARPLOOM_CUSPARSE_CHECK(SetStream, handle, stream);
    const vector_operand x(num_cols_, x_values, api::data_type(dtype_));
    const vector_operand y(num_rows_, y_values, api::data_type(dtype_));
    const api::factors factors(dtype_);
    const void* alpha = factors.one();
    const void* beta = factors.zero();
    const cudaDataType sum_type = factors.type();
    constexpr auto plain = api::non_transpose;
    if (!prepared_) {
      std::size_t size = 0;
      WARPLOOM_CUSPARSE_CHECK(SpMV_bufferSize, handle, plain, alpha, matrix_.handle, x, beta, y, sum_type, algorithm_,
                              &size);
      buffer_ = {size, allocate_};
      if (api::api().SpMV_preprocess != nullptr) {
        WARPLOOM_CUSPARSE_CHECK(SpMV_preprocess, handle, plain, alpha, matrix_.handle, x, beta, y, sum_type, algorithm_,
                                buffer_.data());
      }
      prepared_ = true;
    }
    WARPLOOM_CUSPARSE_CHECK(SpMV, handle, plain, alpha, matrix_.handle, x, beta, y, sum_type, algorithm_,
                            buffer_.data());
  }

  std::size_t bytes() const override { return matrix_.bytes() + buffer_.bytes(); }
  // What the library finds out in advance is of the pattern alone, as its documentation has it.
  std::vector<value_array> value_arrays() override { return {matrix_.all_values(dtype_)}; }

 private:
  std::int64_t num_rows_;
  std::int64_t num_cols_;
  value_type dtype_;
  api::spmv_algorithm algorithm_;
  device_allocator allocate_;
  vendor_matrix matrix_;
  cuda::device_array<std::byte> buffer_;
  bool prepared_ = false;
};

}  // namespace

std::unique_ptr<product_plan> prepare_cuda_spmv_csr_cusparse(const device_csr& matrix, const product_request& request,
                                                             const device_allocator& allocate) {
  constexpr api::spmv_algorithm algorithms[] = {api::spmv_default, api::spmv_csr_algorithm1, api::spmv_csr_algorithm2};
  vendor_matrix stored;
  stored.csr = matrix.kept(allocate);
  const device_csr& A = *stored.csr;
  WARPLOOM_CUSPARSE_CHECK(CreateCsr, &stored.handle, A.num_rows(), A.num_cols(), A.nnz(), api::pointer(A.indptr32()),
                          api::pointer(A.indices()), api::pointer(A.values<std::byte>()), api::index_int32,
                          api::index_int32, api::base_zero, api::data_type(A.dtype()));
  return std::make_unique<cusparse_plan>(matrix, std::move(stored), algorithms[request.parameters.at("algorithm")],
                                         allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmv_coo_cusparse(const device_csr& matrix, const product_request& request,
                                                             const device_allocator& allocate) {
  constexpr api::spmv_algorithm algorithms[] = {api::spmv_default, api::spmv_coo_algorithm1, api::spmv_coo_algorithm2};
  vendor_matrix stored;
  stored.csr = matrix.kept(allocate);
  stored.rows = cuda::row_indices_of(matrix, allocate);
  const device_csr& A = *stored.csr;
  WARPLOOM_CUSPARSE_CHECK(CreateCoo, &stored.handle, A.num_rows(), A.num_cols(), A.nnz(), stored.rows.data(),
                          api::pointer(A.indices()), api::pointer(A.values<std::byte>()), api::index_int32,
                          api::base_zero, api::data_type(A.dtype()));
  return std::make_unique<cusparse_plan>(matrix, std::move(stored), algorithms[request.parameters.at("algorithm")],
                                         allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmv_sell_cusparse(const device_csr& matrix, const product_request& request,
                                                              const device_allocator& allocate) {
  if (api::api().CreateSlicedEll == nullptr)
    throw error(error_kind::device, "cusparse", -1, "cuSPARSE has no sliced ELL");
  constexpr std::int64_t original_order = 1;
  const auto check_places = [&](std::int64_t places) {
    refuse_candidate("sell/cusparse", sell_places_reason(places, matrix.nnz()));
  };
  cuda::device_sell sell(matrix, {request.parameters.at("slice_height"), original_order, /*shared_head=*/false},
                         check_places, allocate);
  vendor_matrix stored;
  stored.slices = std::move(sell).take_slices();
  const cuda::device_slices& slices = stored.slices;
  WARPLOOM_CUSPARSE_CHECK(CreateSlicedEll, &stored.handle, matrix.num_rows(), matrix.num_cols(), matrix.nnz(),
                          slices.places(), slices.height, slices.tail_ptr.data(), slices.indices.data(),
                          slices.data.data(), api::index_int32, api::index_int32, api::base_zero,
                          api::data_type(matrix.dtype()));
  return std::make_unique<cusparse_plan>(matrix, std::move(stored), api::spmv_sell_algorithm1, allocate);
}

std::unique_ptr<product_plan> prepare_cuda_spmv_bsr_cusparse(const device_csr& source, const product_request& request,
                                                             const device_allocator& allocate) {
  const csr_view& matrix = source.host();
  if (api::api().CreateBsr == nullptr) throw error(error_kind::device, "cusparse", -1, "cuSPARSE has no generic BSR");
  const bsr_matrix bsr = to_bsr(matrix, request.parameters.at("block_size"));
  const std::vector<std::int32_t> offsets(bsr.indptr.begin(), bsr.indptr.end());
  const std::int64_t size = bsr.block.rows;
  vendor_matrix stored;
  stored.rows = cuda::upload(offsets.data(), offsets.size(), allocate, source.stream());
  stored.indices = cuda::upload(bsr.indices.data(), bsr.indices.size(), allocate, source.stream());
  stored.data = cuda::upload(bsr.data.data(), bsr.data.size(), allocate, source.stream());
  WARPLOOM_CUSPARSE_CHECK(CreateBsr, &stored.handle, bsr.num_block_rows(), matrix.num_cols / size, bsr.num_blocks(),
                          size, size, stored.rows.data(), stored.indices.data(), stored.data.data(), api::index_int32,
                          api::index_int32, api::base_zero, api::data_type(matrix.dtype), api::row_major);
  return std::make_unique<cusparse_plan>(source, std::move(stored), api::spmv_bsr_algorithm1, allocate);
}

}  // namespace warploom
