#include "tessera/backend/cuda/captured_graph.h"

#include <utility>

#include "tessera/backend/cuda/cuda_call.h"

namespace tessera::cuda {
namespace {

class CapturedGraph final : public CapturedWork {
 public:
  CapturedGraph(cudaGraph_t graph, cudaStream_t stream, std::function<void()> before_run)
      : stream_(stream), before_run_(std::move(before_run)) {
    const cudaError_t made = cudaGraphInstantiate(&runnable_, graph, 0);
    check_cuda(cudaGraphDestroy(graph), "forget a graph");
    check_cuda(made, "make a graph runnable");
    check_cuda(cudaGraphUpload(runnable_, stream), "upload a graph");  // which else its first run would do
  }
  ~CapturedGraph() override { cudaGraphExecDestroy(runnable_); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  void run() override {
    before_run_();
    check_cuda(cudaGraphLaunch(runnable_, stream_), "run a graph");
  }

 private:
  cudaGraphExec_t runnable_ = nullptr;
  cudaStream_t stream_;
  std::function<void()> before_run_;
};

}  // namespace

// Thread-local: other ranks' threads may go on using the GPU meanwhile.
Capture::Capture(cudaStream_t stream) : stream_(stream) {
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin to note work");
}

// Some work has failed: a stream that still notes would let nothing be freed.
Capture::~Capture() {
  if (stream_ == nullptr) return;
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream_, &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // a capture that has failed says so once more
}

std::unique_ptr<CapturedWork> Capture::end(std::function<void()> before_run) {
  cudaGraph_t graph = nullptr;
  const cudaStream_t stream = std::exchange(stream_, nullptr);
  check_cuda(cudaStreamEndCapture(stream, &graph), "note work");
  return std::make_unique<CapturedGraph>(graph, stream, std::move(before_run));
}

}  // namespace tessera::cuda
