// The entry points of kernels/cuda/spmm in a build without CUDA: callers carry no #ifdef, users get one clear error.
#include "kernels/cuda/spmm/prepare.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

[[noreturn]] void no_cuda() {
  throw error(error_kind::device, "device", -1,
              "this build of warploom has no CUDA kernels; reinstall with a CUDA toolkit (nvcc) on the PATH, or use "
              "device='cpu'");
}

}  // namespace

std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_csr(const csr_view&, const spmm_request&,
                                                         const device_allocator&) {
  no_cuda();
}

std::unique_ptr<spmm_plan> prepare_cuda_c_stationary_dcsr(const csr_view&, const spmm_request&,
                                                          const device_allocator&) {
  no_cuda();
}

std::unique_ptr<spmm_plan> prepare_cuda_row_split_csr(const csr_view&, const spmm_request&, const device_allocator&) {
  no_cuda();
}

std::unique_ptr<spmm_plan> prepare_cuda_row_split_dcsr(const csr_view&, const spmm_request&, const device_allocator&) {
  no_cuda();
}

std::unique_ptr<spmm_plan> prepare_cuda_row_split_segmented_csr(const csr_view&, const spmm_request&,
                                                                const device_allocator&) {
  no_cuda();
}

}  // namespace warploom
