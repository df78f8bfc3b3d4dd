#include <array>
#include <mutex>
#include <new>

#include "device/replay.hpp"
#include "device/runtime.hpp"
#include "device/workspace.hpp"
#include "warploom/process_mutex.hpp"

namespace warploom {
namespace {

// Whether a graph does the same each time: memory that is allocated in one is there only once.
bool can_be_repeated(cudaGraph_t graph) {
  constexpr std::size_t most_nodes = 256;
  std::array<cudaGraphNode_t, most_nodes> nodes;
  std::size_t count = 0;
  WARPLOOM_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  if (count == 0 || count > most_nodes) return false;
  WARPLOOM_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  for (std::size_t i = 0; i < count; ++i) {
    cudaGraphNodeType type{};
    WARPLOOM_CUDA_CHECK(cudaGraphNodeGetType(nodes[i], &type));
    if (type != cudaGraphNodeTypeKernel && type != cudaGraphNodeTypeMemcpy && type != cudaGraphNodeTypeMemset) {
      return false;
    }
  }
  return true;
}

// Null if it fails.
cudaGraph_t capture(const std::function<void(CUstream_st*)>& enqueue) {
  const cudaStream_t stream = cuda::recording_stream(cuda::current_device());
  WARPLOOM_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  bool complete = true;
  try {
    enqueue(stream);
  } catch (...) {  // as it would anywhere, or since it cannot be captured
    complete = false;
  }
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) cudaGetLastError();
  if (complete || graph == nullptr) return graph;
  cudaGraphDestroy(graph);
  return nullptr;
}

}  // namespace

std::unique_ptr<recorded_work> recorded_work::record(const std::function<void(CUstream_st*)>& enqueue) noexcept {
  static process_mutex& recording = *new process_mutex;  // plans may be used while the process ends
  try {
    const std::lock_guard<process_mutex> lock(recording);
    const cuda::relaxed_capture_mode mode;
    const cudaGraph_t graph = capture(enqueue);
    if (graph == nullptr) return nullptr;
    const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> owned(graph, &cudaGraphDestroy);
    if (!can_be_repeated(graph)) return nullptr;
    cudaGraphExec_t made = nullptr;
    WARPLOOM_CUDA_CHECK(cudaGraphInstantiate(&made, graph, 0));
    auto recorded = std::unique_ptr<recorded_work>(new (std::nothrow) recorded_work(made));
    if (!recorded) cudaGraphExecDestroy(made);
    return recorded;
  } catch (...) {
    return nullptr;  // it is enqueued as before
  }
}

recorded_work::~recorded_work() {
  const cuda::relaxed_capture_mode mode;
  if (cudaGraphExecDestroy(graph_) != cudaSuccess) cudaGetLastError();
}

void recorded_work::launch(CUstream_st* stream) const { WARPLOOM_CUDA_CHECK(cudaGraphLaunch(graph_, stream)); }

}  // namespace warploom
