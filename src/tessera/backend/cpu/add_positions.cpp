#include "tessera/ops/add_positions.h"

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cpu {

// x[B, T, D] + table[P, D]
void add_positions(const KernelCall& call, Context& context) {
  const Shape& shape = call.outputs[0].shape;
  const std::int64_t seq_len = shape[1], width = shape[2];
  std::int64_t first = first_index(call, call.attrs->as<AddPositionsAttrs>().sequence, seq_len);
  if (call.inputs.size() == 3) first += call.inputs[2].as<std::int32_t>()[0];
  const std::int64_t last = call.inputs[1].shape[0] - 1;  // padding may lie beyond the table
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T *x = call.inputs[0].as<T>().data(), *table = call.inputs[1].as<T>().data();
    T* y = call.outputs[0].as<T>().data();
    for_each_row(context.pool, shape.num_rows(), width, [&](std::int64_t row) {
      const T* position = table + std::min(last, first + row % seq_len) * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        put(y[row * width + c], widen(x[row * width + c]) + widen(position[c]));
      }
    });
  });
}

// accumulator[P, D] gains the sum of dy[B, T, D] over the batch, sequences in order.
void add_positions_grad(const KernelCall& call, Context& context) {
  const Shape& shape = call.inputs[1].shape;
  const std::int64_t batch = shape[0], seq_len = shape[1], width = shape[2];
  const CutRange& cut = call.attrs->as<AddPositionsAttrs>().sequence;
  const std::int64_t first = first_index(call, cut, seq_len);
  const std::int64_t rows = cut.cut ? std::clamp<std::int64_t>(cut.whole - first, 0, seq_len) : seq_len;
  for_dtype(call.inputs[1].dtype, [&]<class T>(T) {
    const T* dy = call.inputs[1].as<T>().data();
    Accumulate<T>* acc = call.outputs[0].as<Accumulate<T>>().data();
    for_each_row(context.pool, rows, batch * width, [&](std::int64_t t) {
      for (std::int64_t b = 0; b < batch; ++b) {
        const T* row = dy + (b * seq_len + t) * width;
#pragma omp simd
        for (std::int64_t c = 0; c < width; ++c) acc[(first + t) * width + c] += widen(row[c]);
      }
    });
  });
}

}  // namespace tessera::cpu
