// Arrays of the host on their way to a GPU, and back.
//
// The floor is the bytes that travel over the bandwidth of the bus: 67 MB over PCIe 5.0 x16 (about 55 GB/s) take 1.2
// ms. A copy of pageable memory goes through a buffer of the driver that one thread fills or empties, at 9 to 15 GB/s.
// Here several threads do that with page-locked memory, piece by piece, and each piece travels while others are filled
// or emptied.
//
// The process keeps up to 2 sets of 16 page-locked buffers of 1 MiB each, allocated when first needed and never freed:
// 32 MiB at most. More than 2 transfers at a time wait for one another.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace warploom::cuda {

// An array to be copied.
struct host_array {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;  // that arrive
  // Whether int64 become int32 on the way, which all of them fit into: twice as many bytes are read as arrive.
  bool narrows = false;
};

// Copies the arrays on the stream, and waits for that once, at the end. `after_first` is called once, with the current
// device set, as soon as the whole first array is enqueued: what it enqueues on the stream sees that array, and is done
// on return.
void upload_arrays(std::span<const host_array> arrays, cudaStream_t stream, const std::function<void()>& after_first);

// Copies one array on the stream, and does not wait for that: `array.from` has been read on return.
void upload_array(const host_array& array, cudaStream_t stream);

// Copies what the stream leaves in memory of the current device to the host. Complete on return.
void download_array(void* to, const void* from, std::size_t bytes, cudaStream_t stream);

}  // namespace warploom::cuda
