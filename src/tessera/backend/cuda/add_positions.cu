#include "tessera/backend/cuda/launch.cuh"
#include "tessera/ops/add_positions.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cuda {
namespace {

struct Sequences {
  std::int64_t batch, seq_len, width;
  std::int64_t first;  // position of the first row: a rank may hold a part of every sequence
};

// A pack of x[B, T, D] + table[P, D]; y may lie on x. Padding may lie beyond the table. `continued`: further
// on by a number on the device, unless null.
template <int W, class T>
__global__ void add_rows(const T* x, const T* table, T* y, Sequences shape, std::int64_t last,
                         const std::int32_t* continued) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W;
  if (at >= shape.batch * shape.seq_len * shape.width) return;
  const std::int64_t first = shape.first + (continued == nullptr ? 0 : *continued);
  const std::int64_t position = min(last, first + at / shape.width % shape.seq_len);
  float v[W], p[W];
  load<W>(x + at, v);
  load<W>(table + position * shape.width + at % shape.width, p);
#pragma unroll
  for (int i = 0; i < W; ++i) v[i] += p[i];
  store<W>(y + at, v);
}

// A pack of a row of the accumulator [P, D] gains the sum of dy[B, T, D] over the batch, sequences in order.
template <int W, class T>
__global__ void add_over_batch(const T* dy, float* accumulator, Sequences shape, std::int64_t rows) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W;
  if (at >= rows * shape.width) return;
  float sum[W] = {}, v[W];
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    load<W>(dy + b * shape.seq_len * shape.width + at, v);
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += v[i];
  }
  float* const to = accumulator + shape.first * shape.width + at;
#pragma unroll
  for (int i = 0; i < W; ++i) to[i] += sum[i];
}

}  // namespace

void add_positions(const KernelCall& call, Context& context) {
  const Shape& shape = call.outputs[0].shape;
  const CutRange& cut = call.attrs->as<AddPositionsAttrs>().sequence;
  const Sequences sequences{shape[0], shape[1], shape[2], first_index(call, cut, shape[1])};
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T *x = data<T>(call.inputs[0]), *table = data<T>(call.inputs[1]);
    T* y = data<T>(call.outputs[0]);
    with_packs<T>(packs_fit<T>(shape[2], x, table, y), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      add_rows<W><<<num_blocks(shape.num_elems(), W * kThreads), kThreads, 0, context.stream>>>(
          x, table, y, sequences, call.inputs[1].shape[0] - 1,
          call.inputs.size() == 3 ? data<std::int32_t>(call.inputs[2]) : nullptr);
    });
  });
}

void add_positions_grad(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  const Shape& shape = call.inputs[1].shape;
  const CutRange& cut = call.attrs->as<AddPositionsAttrs>().sequence;
  const Sequences sequences{shape[0], shape[1], shape[2], first_index(call, cut, shape[1])};
  const std::int64_t rows = cut.cut
                                ? std::clamp<std::int64_t>(cut.whole - sequences.first, 0, sequences.seq_len)
                                : sequences.seq_len;
  if (rows == 0) return;
  for_dtype(call.inputs[1].dtype, [&]<class T>(T) {
    const T* dy = data<T>(call.inputs[1]);
    with_packs<T>(packs_fit<T>(shape[2], dy), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      add_over_batch<W><<<num_blocks(rows * shape[2], W * kThreads), kThreads, 0, context.stream>>>(
          dy, data<float>(call.outputs[0]), sequences, rows);
    });
  });
}

}  // namespace tessera::cuda
