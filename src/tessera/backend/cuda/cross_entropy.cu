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

template <class G>
struct Grads {
  G* data;
  std::int64_t stride;
  const float* scale;
};

template <int W, class G>
__device__ void clear_columns(G* grad, std::int64_t begin, std::int64_t end) {
  for (std::int64_t c = begin + threadIdx.x; c < end; c += blockDim.x) grad[c] = narrow<G>(0.0f);
}

// The gradient of a scored row. `target` is a column, or -1 if another rank has it. All threads have read
// what they need of the target's logit: it may be overwritten.
template <int W, class T, class G>
__device__ void write_row_grad(const T* logits, RowSummary row, float target_logit, std::int64_t target,
                               std::int64_t columns, float scale, G* grad) {
  __syncthreads();
  write_softmax<W>(logits, row, scale, grad, columns);
  __syncthreads();
  if (threadIdx.x == 0 && target >= 0) {
    grad[target] = narrow<G>((expf(target_logit - row.max) / row.sum - 1.0f) * scale);
  }
}

__device__ double row_loss(RowSummary row, float target_logit) {
  return log(static_cast<double>(row.sum)) +
         (static_cast<double>(row.max) - static_cast<double>(target_logit));
}

template <class T>
__global__ void bias_rows(const T* bias, std::int64_t columns, std::int64_t stride, float* to) {
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c < columns) to[blockIdx.y * stride + c] = widen(bias[c]);
}

template <int W, class T, class G>
__global__ void loss_of_rows(const T* logits, std::int64_t stride, std::int64_t columns, std::int64_t padding,
                             const std::int32_t* targets, double* losses, Grads<G> grads) {
  const std::int64_t r = blockIdx.x, target = targets[r];
  assert(target < columns);
  const T* const row_logits = logits + r * stride;
  G* const grad = grads.data == nullptr ? nullptr : grads.data + r * grads.stride;
  if (grad != nullptr) clear_columns<W>(grad, columns, columns + padding);
  if (target < 0) {
    if (threadIdx.x == 0 && losses != nullptr) losses[r] = 0;
    if (grad != nullptr) clear_columns<W>(grad, 0, columns);
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

template <int W>
__global__ void summaries_of_rows(const float* logits, std::int64_t stride, const std::int32_t* targets,
                                  CutWords cut, float* summaries) {
  const std::int64_t r = blockIdx.x, target = local_target(targets[r], cut);
  const float* const row_logits = logits + r * stride;
  const RowSummary row = summarize_row<W>(row_logits, cut.words);
  if (threadIdx.x != 0) return;
  summaries[kRowSummary * r] = row.max;
  summaries[kRowSummary * r + 1] = row.sum;
  summaries[kRowSummary * r + 2] = target < 0 ? 0.0f : row_logits[target];
}

template <int W, class G>
__global__ void loss_of_cut_rows(const float* logits, std::int64_t stride, std::int64_t columns,
                                 const std::int32_t* targets, CutWords cut, const float* summaries,
                                 int num_ranks, double* losses, Grads<G> grads) {
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
  G* const grad = grads.data + r * grads.stride;
  if (scored) {
    write_row_grad<W>(logits + r * stride, whole, target_logit, local_target(targets[r], cut), cut.words,
                      *grads.scale, grad);
  }
  clear_columns<W>(grad, scored ? cut.words : 0, columns);
}

__global__ void add_losses(const double* losses, std::int64_t rows, const float* scale, float* loss) {
  double sum = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x) sum += losses[r];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss = static_cast<float>(sum * *scale);
}

template <class G>
Grads<G> typed(const LogitGrads& grads) {
  return {static_cast<G*>(grads.data), grads.stride, grads.scale};
}

// Packs of logits that are also whole packs of gradients: as many elements as fit in 16 bytes of either.
template <class T, class F>
void with_row_packs(const LogitRows& rows, const LogitGrads& grads, F&& f) {
  with_packs<T>(packs_fit<T>(rows.stride, rows.logits) && packs_fit<T>(grads.stride, grads.data), f);
}

}  // namespace

void spread_bias(Context& context, DType dtype, const void* bias, std::int64_t columns, std::int64_t rows,
                 std::int64_t stride, float* to) {
  // A grid has at most 65535 blocks in its second dim.
  constexpr std::int64_t kMostRows = 65535;
  for (std::int64_t first = 0; first < rows; first += kMostRows) {
    const dim3 grid(num_blocks(columns, kThreads), static_cast<unsigned>(std::min(kMostRows, rows - first)));
    for_dtype(dtype, [&]<class T>(T) {
      bias_rows<<<grid, kThreads, 0, context.stream>>>(static_cast<const T*>(bias), columns, stride,
                                                       to + first * stride);
    });
  }
}

void cross_entropy_of_rows(Context& context, const LogitRows& rows, double* losses, const LogitGrads& grads) {
  for_dtype(rows.dtype, [&]<class T>(T) {
    for_dtype(grads.dtype, [&]<class G>(G) {
      with_row_packs<T>(rows, grads, [&]<class Width>(Width) {
        constexpr int W = Width::value;
        loss_of_rows<W><<<static_cast<unsigned>(rows.rows), row_threads(rows.columns, W, kMostThreads), 0,
                          context.stream>>>(static_cast<const T*>(rows.logits), rows.stride, rows.columns,
                                            rows.padding, rows.targets, losses, typed<G>(grads));
      });
    });
  });
}

void summarize_cut_rows(Context& context, const LogitRows& rows, CutWords cut, float* summaries) {
  TS_ASSERT(rows.dtype == DType::f32);
  with_row_packs<float>(rows, {}, [&]<class Width>(Width) {
    constexpr int W = Width::value;
    summaries_of_rows<W>
        <<<static_cast<unsigned>(rows.rows), row_threads(rows.columns, W, kMostThreads), 0, context.stream>>>(
            static_cast<const float*>(rows.logits), rows.stride, rows.targets, cut, summaries);
  });
}

void cross_entropy_of_cut_rows(Context& context, const LogitRows& rows, CutWords cut, const float* summaries,
                               int num_ranks, double* losses, const LogitGrads& grads) {
  TS_ASSERT(rows.dtype == DType::f32);
  for_dtype(grads.dtype, [&]<class G>(G) {
    with_row_packs<float>(rows, grads, [&]<class Width>(Width) {
      constexpr int W = Width::value;
      loss_of_cut_rows<W><<<static_cast<unsigned>(rows.rows), row_threads(rows.columns, W, kMostThreads), 0,
                            context.stream>>>(static_cast<const float*>(rows.logits), rows.stride,
                                              rows.columns, rows.targets, cut, summaries, num_ranks, losses,
                                              typed<G>(grads));
    });
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
      nullptr, {call.outputs[0].data, logits.dtype, columns, data<float>(call.inputs[2])});
}

}  // namespace tessera::cuda
