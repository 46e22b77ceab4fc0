// CUDA's functions for GPUs, errors, streams, events and graphs, emulated.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "emulated_gpu/machine.h"
#include "emulated_gpu/tensor_map.h"

using emulated::machine;
using emulated::said;
using emulated::t_gpu;

namespace {

cudaError_t new_event(cudaEvent_t* event, bool timed) {
  *event = new CUevent_st{.gpu = t_gpu, .timed = timed};
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine().num_gpus;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= machine().num_gpus) return said(cudaErrorInvalidDevice);
  t_gpu = gpu;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* gpu) {
  *gpu = t_gpu;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  if (gpu < 0 || gpu >= machine().num_gpus) return said(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "emulated GPU");
  properties->uuid.bytes[0] = static_cast<char>(1 + gpu);
  properties->major = 9;
  properties->multiProcessorCount = emulated::kMultiprocessors;
  properties->totalGlobalMem = emulated::kMemoryBytes;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute != cudaDevAttrMultiProcessorCount) return said(cudaErrorInvalidValue);
  *value = emulated::kMultiprocessors;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int gpu, int peer) {
  *can = gpu != peer && machine().gpus_read_each_other;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  const std::lock_guard lock(machine().mutex);
  bool& enabled = machine().peers[64 * t_gpu + peer];
  if (enabled) return said(cudaErrorPeerAccessAlreadyEnabled);
  enabled = true;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult* result) {
  const bool found = std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
  *function = found ? reinterpret_cast<void*>(&emulated::encode_tensor_map) : nullptr;
  *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int bytes) {
  return bytes >= 0 && static_cast<std::size_t>(bytes) <= emulated::kMostSharedBytes
             ? cudaSuccess
             : said(cudaErrorInvalidValue);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, std::size_t,
                                                                   unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return std::exchange(emulated::t_last_error, cudaSuccess);
}
const char* cudaGetErrorName(cudaError_t status) {
  return status == cudaSuccess ? "cudaSuccess" : "an error of the emulated GPU";
}
const char* cudaGetErrorString(cudaError_t status) {
  static thread_local char text[64];
  std::snprintf(text, sizeof text, "error %d of the emulated GPU", static_cast<int>(status));
  return text;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(machine().mutex);
  *stream = new CUstream_st{.gpu = t_gpu};
  machine().streams.push_back(*stream);
  return cudaSuccess;
}
// What it has been given is done all the same.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(machine().mutex);
  stream->destroyed = true;
  emulated::forget_if_done(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream->captured_to != nullptr) return said(cudaErrorStreamCaptureUnsupported);
  emulated::go_on_until([&] { return stream->steps.empty(); });
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (stream->captured_to != nullptr) return said(cudaErrorStreamCaptureUnsupported);
  const std::lock_guard lock(machine().mutex);
  while (!stream->steps.empty() && emulated::go_on()) {
  }
  return stream->steps.empty() ? cudaSuccess : said(cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(machine().mutex);
  if (event->captured_to != nullptr)  // of this stream itself; another would join the capture
    return stream->captured_to == event->captured_to ? cudaSuccess : said(cudaErrorStreamCaptureMerge);
  const std::int64_t times = event->moment->recorded;
  if (times == 0) return cudaSuccess;
  if (stream->captured_to != nullptr) return said(cudaErrorStreamCaptureIsolation);
  return emulated::enqueue(
      stream, [] {}, [moment = event->moment, times] { return moment->reached >= times; });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return new_event(event, true);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return new_event(event, (flags & cudaEventDisableTiming) == 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(machine().mutex);
  if (event->gpu != stream->gpu) return said(cudaErrorInvalidResourceHandle);
  event->captured_to = stream->captured_to;
  if (stream->captured_to != nullptr) return cudaSuccess;
  return emulated::enqueue(stream, [moment = event->moment, times = ++event->moment->recorded] {
    moment->reached = std::max(moment->reached, times);
    moment->time = std::chrono::steady_clock::now();
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->captured_to != nullptr) return said(cudaErrorCapturedEvent);
  emulated::go_on_until([&] { return event->moment->passed(); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const auto &first = *from->moment, &last = *to->moment;
  if (!from->timed || !to->timed || first.recorded == 0 || last.recorded == 0)
    return said(cudaErrorInvalidResourceHandle);
  if (!first.passed() || !last.passed()) return said(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(last.time - first.time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(machine().mutex);
  if (stream->captured_to != nullptr) return said(cudaErrorIllegalState);
  stream->captured_to = new CUgraph_st;
  ++emulated::t_captures;
  return cudaSuccess;
}
// Streams that have joined have to be waited for by then: one that is captured alone is all that is needed
// here.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(machine().mutex);
  if (stream->captured_to == nullptr) return said(cudaErrorIllegalState);
  *graph = stream->captured_to;
  stream->captured_to = nullptr;
  --emulated::t_captures;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* runnable, cudaGraph_t graph, unsigned long long) {
  *runnable = new CUgraphExec_st{graph->work};
  const std::lock_guard lock(machine().mutex);
  ++machine().counts.allocations;  // a driver takes memory for it
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) {
  return stream->captured_to == nullptr ? cudaSuccess : said(cudaErrorStreamCaptureUnsupported);
}
// It outlives what it has been launched as.
cudaError_t cudaGraphLaunch(cudaGraphExec_t runnable, cudaStream_t stream) {
  if (stream->captured_to != nullptr) return said(cudaErrorStreamCaptureUnsupported);
  const std::lock_guard lock(machine().mutex);
  ++machine().counts.graph_launches;
  return emulated::enqueue(stream, [work = runnable->work] {
    for (const auto& piece : work) piece();
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t runnable) {
  delete runnable;
  return cudaSuccess;
}

}  // extern "C"
