// What a program in C waits for when it multiplies with cuSPARSE: descriptors, a buffer, preprocessing if it asks for
// it, and products, by the clock of the host. Nothing of warploom's is in between.
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "device/runtime.hpp"
#include "experiments/experiments.hpp"
#include "kernels/cusparse/api.hpp"

namespace warploom {
namespace {

namespace api = cuda::cusparse;
using clock = std::chrono::steady_clock;

double microseconds(clock::time_point from, clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// A pool that keeps what is freed, as the allocators of frameworks do: the default pool returns memory to the driver
// whenever the stream is synchronised, and every preparation would pay for it anew.
cudaMemPool_t pool_of_current_device() {
  static std::mutex changing;
  static std::map<int, cudaMemPool_t>& pools = *new std::map<int, cudaMemPool_t>;  // the driver may shut down first
  const std::lock_guard<std::mutex> lock(changing);
  cudaMemPool_t& pool = pools[cuda::current_device()];
  if (pool != nullptr) return pool;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = cuda::current_device();
  cudaMemPool_t made = nullptr;
  WARPLOOM_CUDA_CHECK(cudaMemPoolCreate(&made, &properties));
  std::uint64_t threshold = UINT64_MAX;
  WARPLOOM_CUDA_CHECK(cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &threshold));
  return pool = made;
}

// Memory for work on the default stream.
class memory {
 public:
  memory() = default;
  explicit memory(std::size_t bytes) {
    if (bytes > 0) WARPLOOM_CUDA_CHECK(cudaMallocFromPoolAsync(&data_, bytes, pool_of_current_device(), nullptr));
  }
  memory(memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  memory& operator=(memory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~memory() {
    if (data_ != nullptr) cudaFreeAsync(data_, nullptr);
  }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

api::spmv_algorithm spmv_algorithm(int number) {
  constexpr api::spmv_algorithm known[] = {api::spmv_default, api::spmv_csr_algorithm1, api::spmv_csr_algorithm2};
  return known[number];
}

api::spmm_algorithm spmm_algorithm(int number) {
  constexpr api::spmm_algorithm known[] = {api::spmm_default, api::spmm_csr_algorithm1, api::spmm_csr_algorithm2,
                                           api::spmm_csr_algorithm3};
  return known[number];
}

// A matrix and its operands as the library sees them, made as a program in C makes them.
class vendor_product {
 public:
  // Delegates, so that the destructor runs if the library refuses something.
  vendor_product(const vendor_problem& problem, const void* B, void* C) : vendor_product(problem) {
    WARPLOOM_CUSPARSE_CHECK(SetStream, handle_, nullptr);
    const vendor_problem& A = problem_;
    const std::size_t index_bytes = A.wide_indices ? sizeof(std::int64_t) : sizeof(std::int32_t);
    const void* indptr = on_device(indptr_, A.indptr, (A.num_rows + 1) * index_bytes);
    const void* indices = on_device(indices_, A.indices, A.nnz * index_bytes);
    const void* data = on_device(data_, A.data, A.nnz * size_of(A.dtype));
    const auto index = A.wide_indices ? api::index_int64 : api::index_int32;
    WARPLOOM_CUSPARSE_CHECK(CreateCsr, &matrix_, A.num_rows, A.num_cols, A.nnz, const_cast<void*>(indptr),
                            const_cast<void*>(indices), const_cast<void*>(data), index, index, api::base_zero, type());
    if (A.op == operation::spmv) {
      WARPLOOM_CUSPARSE_CHECK(CreateDnVec, &x_, A.num_cols, const_cast<void*>(B), type());
      WARPLOOM_CUSPARSE_CHECK(CreateDnVec, &y_, A.num_rows, C, type());
      prepare_spmv();
    } else {
      WARPLOOM_CUSPARSE_CHECK(CreateDnMat, &b_, A.num_cols, A.k, A.k, const_cast<void*>(B), type(), api::row_major);
      WARPLOOM_CUSPARSE_CHECK(CreateDnMat, &c_, A.num_rows, A.k, A.k, C, type(), api::row_major);
      prepare_spmm();
    }
  }

  ~vendor_product() {
    if (matrix_ != nullptr) api::api().DestroySpMat(matrix_);
    if (x_ != nullptr) api::api().DestroyDnVec(x_);
    if (y_ != nullptr) api::api().DestroyDnVec(y_);
    if (b_ != nullptr) api::api().DestroyDnMat(b_);
    if (c_ != nullptr) api::api().DestroyDnMat(c_);
  }
  vendor_product(const vendor_product&) = delete;
  vendor_product& operator=(const vendor_product&) = delete;

  void multiply() {
    if (problem_.op == operation::spmv) {
      WARPLOOM_CUSPARSE_CHECK(SpMV, handle_, api::non_transpose, one(), matrix_, x_, zero(), y_, type(),
                              spmv_algorithm(problem_.algorithm), buffer_.data());
    } else {
      WARPLOOM_CUSPARSE_CHECK(SpMM, handle_, api::non_transpose, api::non_transpose, one(), matrix_, b_, zero(), c_,
                              type(), spmm_algorithm(problem_.algorithm), buffer_.data());
    }
  }

  std::size_t buffer_bytes() const { return buffer_bytes_; }

 private:
  explicit vendor_product(const vendor_problem& problem) : problem_(problem), handle_(api::current_handle()) {}

  cudaDataType type() const { return problem_.dtype == value_type::float32 ? CUDA_R_32F : CUDA_R_64F; }
  const void* one() const { return type() == CUDA_R_32F ? static_cast<const void*>(&one32_) : &one64_; }
  const void* zero() const { return type() == CUDA_R_32F ? static_cast<const void*>(&zero32_) : &zero64_; }

  const void* on_device(memory& copy, const void* array, std::size_t bytes) {
    if (!problem_.on_host || bytes == 0) return array;
    copy = memory(bytes);
    WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(copy.data(), array, bytes, cudaMemcpyHostToDevice, nullptr));
    return copy.data();
  }

  void prepare_spmv() {
    const auto algorithm = spmv_algorithm(problem_.algorithm);
    WARPLOOM_CUSPARSE_CHECK(SpMV_bufferSize, handle_, api::non_transpose, one(), matrix_, x_, zero(), y_, type(),
                            algorithm, &buffer_bytes_);
    buffer_ = memory(buffer_bytes_);
    if (!problem_.preprocess) return;
    if (api::api().SpMV_preprocess == nullptr)
      throw error(error_kind::device, "preprocess", -1, "this cuSPARSE has no cusparseSpMV_preprocess");
    WARPLOOM_CUSPARSE_CHECK(SpMV_preprocess, handle_, api::non_transpose, one(), matrix_, x_, zero(), y_, type(),
                            algorithm, buffer_.data());
  }

  void prepare_spmm() {
    const auto algorithm = spmm_algorithm(problem_.algorithm);
    WARPLOOM_CUSPARSE_CHECK(SpMM_bufferSize, handle_, api::non_transpose, api::non_transpose, one(), matrix_, b_,
                            zero(), c_, type(), algorithm, &buffer_bytes_);
    buffer_ = memory(buffer_bytes_);
    if (!problem_.preprocess) return;
    WARPLOOM_CUSPARSE_CHECK(SpMM_preprocess, handle_, api::non_transpose, api::non_transpose, one(), matrix_, b_,
                            zero(), c_, type(), algorithm, buffer_.data());
  }

  vendor_problem problem_;
  api::handle handle_;
  memory indptr_, indices_, data_, buffer_;
  std::size_t buffer_bytes_ = 0;
  api::sparse_descriptor matrix_ = nullptr;
  api::vector_descriptor x_ = nullptr, y_ = nullptr;
  api::dense_descriptor b_ = nullptr, c_ = nullptr;
  double one64_ = 1, zero64_ = 0;
  float one32_ = 1, zero32_ = 0;
};

}  // namespace

vendor_times time_vendor(const vendor_problem& problem, const void* B, void* C, int products) {
  api::current_handle();  // a program makes one handle for all its matrices
  WARPLOOM_CUDA_CHECK(cudaDeviceSynchronize());
  const auto start = clock::now();
  vendor_product product(problem, B, C);
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  const auto planned = clock::now();
  product.multiply();
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  const auto first = clock::now();
  for (int i = 0; i < products; ++i) product.multiply();
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  const auto end = clock::now();
  return {microseconds(start, planned), microseconds(planned, first), microseconds(first, end), product.buffer_bytes()};
}

double time_vendor_until(const vendor_problem& problem, const void* B, void* C, int products) {
  api::current_handle();
  WARPLOOM_CUDA_CHECK(cudaDeviceSynchronize());
  const auto start = clock::now();
  vendor_product product(problem, B, C);
  for (int i = 0; i < products; ++i) product.multiply();
  WARPLOOM_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  return microseconds(start, clock::now());
}

}  // namespace warploom
