// softmax_cross_entropy, softmax_cross_entropy_grad, and the rows they are made of.
#include <cassert>

#include "tessera/backend/cuda/cross_entropy_rows.h"
#include "tessera/backend/cuda/kernel_workspace.h"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/softmax_rows.cuh"
#include "tessera/ops/cross_entropy.h"

namespace tessera::cuda {
namespace {

constexpr unsigned kMostThreads = 1024;

template <class T>
struct Grads {
  T* data;
  std::int64_t stride;
  const float* scale;
};

template <class T>
__device__ void clear_columns(T* grad, std::int64_t begin, std::int64_t end) {
  for (std::int64_t c = begin + threadIdx.x; c < end; c += blockDim.x) grad[c] = narrow<T>(0.0f);
}

// The gradient of a scored row. `target` is a column, or -1 if another rank has it. All threads have read
// what they need of the target's logit: it may be overwritten.
template <int W, class T>
__device__ void write_row_grad(const T* logits, RowSummary row, float target_logit, std::int64_t target,
                               std::int64_t columns, float scale, T* grad) {
  __syncthreads();
  write_softmax<W>(logits, row, scale, grad, columns);
  __syncthreads();
  if (threadIdx.x == 0 && target >= 0) {
    grad[target] = narrow<T>((expf(target_logit - row.max) / row.sum - 1.0f) * scale);
  }
}

__device__ double row_loss(RowSummary row, float target_logit) {
  return log(static_cast<double>(row.sum)) +
         (static_cast<double>(row.max) - static_cast<double>(target_logit));
}

template <int W, class T>
__global__ void loss_of_rows(const T* logits, std::int64_t stride, std::int64_t columns, std::int64_t padding,
                             const std::int32_t* targets, double* losses, Grads<T> grads) {
  const std::int64_t r = blockIdx.x, target = targets[r];
  assert(target < columns);
  const T* const row_logits = logits + r * stride;
  T* const grad = grads.data == nullptr ? nullptr : grads.data + r * grads.stride;
  if (grad != nullptr) clear_columns(grad, columns, columns + padding);
  if (target < 0) {
    if (threadIdx.x == 0 && losses != nullptr) losses[r] = 0;
    if (grad != nullptr) clear_columns(grad, 0, columns);
    return;
  }
  const float target_logit = widen(row_logits[target]);
  const RowSummary row = summarize_row<W>(row_logits, columns);
  if (threadIdx.x == 0 && losses != nullptr) losses[r] = row_loss(row, target_logit);
  if (grad != nullptr) write_row_grad<W>(row_logits, row, target_logit, target, columns, *grads.scale, grad);
}

__device__ std::int64_t local_target(std::int32_t target, CutWords cut) {
  const std::int64_t local = target - cut.first;
  return target >= 0 && local >= 0 && local < cut.words ? local : -1;
}

template <int W, class T>
__global__ void summaries_of_rows(const T* logits, std::int64_t stride, const std::int32_t* targets,
                                  CutWords cut, float* summaries) {
  const std::int64_t r = blockIdx.x, target = local_target(targets[r], cut);
  const T* const row_logits = logits + r * stride;
  const RowSummary row = summarize_row<W>(row_logits, cut.words);
  if (threadIdx.x != 0) return;
  summaries[kRowSummary * r] = row.max;
  summaries[kRowSummary * r + 1] = row.sum;
  summaries[kRowSummary * r + 2] = target < 0 ? 0.0f : widen(row_logits[target]);
}

template <int W, class T>
__global__ void loss_of_cut_rows(const T* logits, std::int64_t stride, std::int64_t columns,
                                 const std::int32_t* targets, CutWords cut, const float* summaries,
                                 int num_ranks, double* losses, Grads<T> grads) {
  const std::int64_t r = blockIdx.x, num_rows = gridDim.x;
  RowSummary whole = empty_row();
  float target_logit = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const float* const part = summaries + (rank * num_rows + r) * kRowSummary;
    whole = CombineSummaries{}(whole, RowSummary{part[0], part[1]});
    target_logit += part[2];
  }
  const bool scored = targets[r] >= 0;
  if (threadIdx.x == 0) losses[r] = scored ? row_loss(whole, target_logit) : 0.0;
  if (grads.data == nullptr) return;
  T* const grad = grads.data + r * grads.stride;
  if (scored) {
    write_row_grad<W>(logits + r * stride, whole, target_logit, local_target(targets[r], cut), cut.words,
                      *grads.scale, grad);
  }
  clear_columns(grad, scored ? cut.words : 0, columns);
}

__global__ void add_losses(const double* losses, std::int64_t rows, const float* scale, float* loss) {
  double sum = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x) sum += losses[r];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss = static_cast<float>(sum * *scale);
}

// Calls f(W, logits, gradients) with rows in their type and the packs they can be moved in.
template <class F>
void with_typed_rows(const LogitRows& rows, const LogitGrads& grads, F&& f) {
  for_dtype(rows.dtype, [&]<class T>(T) {
    const bool fit = packs_fit<T>(rows.stride, rows.logits) && packs_fit<T>(grads.stride, grads.data);
    with_packs<T>(fit, [&](auto width) {
      f(width, static_cast<const T*>(rows.logits),
        Grads<T>{static_cast<T*>(grads.data), grads.stride, grads.scale});
    });
  });
}

}  // namespace

void cross_entropy_of_rows(Context& context, const LogitRows& rows, double* losses, const LogitGrads& grads) {
  if (can_keep_rows(rows, grads)) return cross_entropy_of_kept_rows(context, rows, losses, grads);
  with_typed_rows(rows, grads, [&]<class Width, class T>(Width, const T* logits, Grads<T> to) {
    constexpr int W = Width::value;
    loss_of_rows<W>
        <<<static_cast<unsigned>(rows.rows), row_threads(rows.columns, W, kMostThreads), 0, context.stream>>>(
            logits, rows.stride, rows.columns, rows.padding, rows.targets, losses, to);
  });
}

void summarize_cut_rows(Context& context, const LogitRows& rows, CutWords cut, float* summaries) {
  with_typed_rows(rows, {}, [&]<class Width, class T>(Width, const T* logits, Grads<T>) {
    constexpr int W = Width::value;
    summaries_of_rows<W>
        <<<static_cast<unsigned>(rows.rows), row_threads(rows.columns, W, kMostThreads), 0, context.stream>>>(
            logits, rows.stride, rows.targets, cut, summaries);
  });
}

void cross_entropy_of_cut_rows(Context& context, const LogitRows& rows, CutWords cut, const float* summaries,
                               int num_ranks, double* losses, const LogitGrads& grads) {
  with_typed_rows(rows, grads, [&]<class Width, class T>(Width, const T* logits, Grads<T> to) {
    constexpr int W = Width::value;
    loss_of_cut_rows<W>
        <<<static_cast<unsigned>(rows.rows), row_threads(rows.columns, W, kMostThreads), 0, context.stream>>>(
            logits, rows.stride, rows.columns, rows.targets, cut, summaries, num_ranks, losses, to);
  });
}

void sum_losses(Context& context, const double* losses, std::int64_t rows, const float* scale, float* loss) {
  add_losses<<<1, kMostThreads, 0, context.stream>>>(losses, rows, scale, loss);
}

std::int64_t cross_entropy_workspace_bytes(const Graph& graph, const Node& node) {
  return graph.type(node.inputs[0]).shape.num_rows() * static_cast<std::int64_t>(sizeof(double));
}

void softmax_cross_entropy(const KernelCall& call, Context& context) {
  const TensorView& logits = call.inputs[0];
  const std::int64_t rows = logits.shape.num_rows(), columns = logits.shape[-1];
  auto* const losses = workspace_at<double>(call, 0, rows);
  cross_entropy_of_rows(
      context, {logits.data, logits.dtype, rows, columns, columns, data<std::int32_t>(call.inputs[1])},
      losses, {});
  sum_losses(context, losses, rows, data<float>(call.inputs[2]), data<float>(call.outputs[0]));
}

void softmax_cross_entropy_grad(const KernelCall& call, Context& context) {
  const TensorView& logits = call.inputs[0];
  const std::int64_t rows = logits.shape.num_rows(), columns = logits.shape[-1];
  cross_entropy_of_rows(
      context, {logits.data, logits.dtype, rows, columns, columns, data<std::int32_t>(call.inputs[1])},
      nullptr, {call.outputs[0].data, columns, data<float>(call.inputs[2])});
}

}  // namespace tessera::cuda
