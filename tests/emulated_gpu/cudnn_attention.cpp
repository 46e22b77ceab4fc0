// In the place of backend/cuda/cudnn_attention.cpp: a machine without cuDNN.
#include "tessera/backend/cuda/cudnn_attention.h"

#include "tessera/base/error.h"

namespace tessera::cuda {

struct CudnnAttention::Library {};

CudnnAttention::CudnnAttention(bool, std::int64_t score_grad_bytes)
    : score_grad_bytes_(score_grad_bytes), why_not_here_("an emulated GPU has no cuDNN") {}
CudnnAttention::~CudnnAttention() = default;

std::int64_t CudnnAttention::noted(std::int64_t bytes, const AttentionShape&) {
  why_slower_ = why_not_here_;
  return bytes;
}
std::int64_t CudnnAttention::workspace_bytes(const AttentionShape& shape) {
  return noted(-1, shape);
}
std::int64_t CudnnAttention::grad_workspace_bytes(const AttentionShape& shape) {
  return noted(-1, shape);
}

void CudnnAttention::run(const AttentionShape&, const AttentionOperands&, std::span<std::byte>,
                         cudaStream_t) {
  TS_ASSERT(!"no shape has scratch");
}
void CudnnAttention::run_grad(const AttentionShape&, const AttentionGradOperands&, std::span<std::byte>,
                              cudaStream_t) {
  TS_ASSERT(!"no shape has scratch");
}

}  // namespace tessera::cuda
