#include "features/sets.hpp"
#include "kernels/no_cuda/no_cuda.hpp"

namespace warploom {

device_csr_arrays arrays_of(const device_csr&) { no_cuda(); }
void compute_cuda_spmm_features(const device_csr_arrays&, const geometry&, CUstream_st*, double*) { no_cuda(); }
void compute_cuda_spmv_features(const device_csr_arrays&, const geometry&, CUstream_st*, double*) { no_cuda(); }

}  // namespace warploom
