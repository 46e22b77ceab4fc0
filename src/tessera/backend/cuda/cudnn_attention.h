// CudnnAttention: attention and its gradient by cuDNN's fused kernels, for bf16. Several times as fast as
// tensor_core_attention.cu, which serves where cuDNN is not installed, refuses a shape or would have to drop.
//
// cuDNN is opened at run time, so a program built with it also runs without it. Its plan for a shape is built
// when the device is asked for the node's scratch, before anything runs. The gradient is the deterministic
// one, for which cuDNN stores the scores' gradients, a T x T matrix per head: it is asked for a few
// sequences, or a few heads of one, at a time, so that these stay within a limit (or are one group's). Owned
// by the device; attention.cpp decides who runs.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "tessera/backend/cuda/attention.h"

namespace tessera::cuda {

class CudnnAttention {
 public:
  // Not `wanted`: as if cuDNN were not installed.
  CudnnAttention(bool wanted, std::int64_t score_grad_bytes);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Scratch for bf16 operands of this shape; -1 if cuDNN is not here, not wanted or does not compute it.
  std::int64_t workspace_bytes(const AttentionShape& shape);
  std::int64_t grad_workspace_bytes(const AttentionShape& shape);

  // Why attention that asked for cuDNN's kernels runs on slower ones; empty: it does not.
  const std::string& why_slower() const { return why_slower_; }

  // For shapes that have scratch.
  void run(const AttentionShape& shape, const AttentionOperands& operands, std::span<std::byte> workspace,
           cudaStream_t stream);
  void run_grad(const AttentionShape& shape, const AttentionGradOperands& operands,
                std::span<std::byte> workspace, cudaStream_t stream);

 private:
  struct Library;
  std::int64_t noted(std::int64_t bytes, const AttentionShape& shape);

  std::int64_t score_grad_bytes_;
  std::unique_ptr<Library> library_;  // null: cuDNN is not here, or not wanted
  std::string why_not_here_, why_slower_;
};

}  // namespace tessera::cuda
