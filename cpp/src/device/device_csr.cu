#include "device/device_csr.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

std::shared_ptr<const device_csr> upload_csr(const csr_view& matrix, const device_allocator& allocate) {
  return std::make_shared<const device_csr>(matrix, allocate);
}

std::shared_ptr<const device_csr> duplicate_csr(const device_csr_view& matrix, const device_allocator& allocate) {
  return std::make_shared<const device_csr>(matrix, allocate);
}

std::size_t device_csr_bytes(const device_csr& matrix) { return matrix.bytes(); }

namespace cuda {

csr_rows::csr_rows(const csr_view& given, const product_request& request, const device_allocator& allocate) {
  if (request.perm.empty()) {
    matrix = request.resident ? request.resident : upload_csr(given, allocate);
    return;
  }
  const csr_matrix permuted = permute_rows(given, request.perm);
  matrix = upload_csr(permuted.view(), allocate);
  row_ids = upload(request.perm.data(), request.perm.size(), allocate);
}

}  // namespace cuda
}  // namespace warploom
