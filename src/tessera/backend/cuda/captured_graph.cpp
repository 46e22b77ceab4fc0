#include "tessera/backend/cuda/captured_graph.h"

#include <utility>

#include "tessera/backend/cuda/cuda_call.h"

namespace tessera::cuda {
namespace {

class CapturedGraph final : public CapturedWork {
 public:
  CapturedGraph(cudaGraph_t graph, cudaStream_t stream, std::function<void()> before_run)
      : stream_(stream), before_run_(std::move(before_run)) {
    check_cuda(cudaGraphInstantiate(&runnable_, graph, 0), "make a graph runnable");
    check_cuda(cudaGraphDestroy(graph), "forget a graph");
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
void begin_capture(cudaStream_t stream) {
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin to note work");
}

std::unique_ptr<CapturedWork> end_capture(cudaStream_t stream, std::function<void()> before_run) {
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream, &graph), "note work");
  return std::make_unique<CapturedGraph>(graph, stream, std::move(before_run));
}

}  // namespace tessera::cuda
