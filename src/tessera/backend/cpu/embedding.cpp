// embedding, embedding_grad.
#include "tessera/ops/embedding.h"

#include <cstring>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cpu {

void embedding(const KernelCall& call, Context& context) {
  const TensorView &table = call.inputs[0], &y = call.outputs[0];
  const auto ids = call.inputs[1].as<std::int32_t>();
  const std::int64_t row_bytes = table.shape[1] * dtype_bytes(table.dtype);
  const auto* from = static_cast<const std::byte*>(table.data);
  auto* to = static_cast<std::byte*>(y.data);
  const CutRange& cut = call.attrs->as<EmbeddingAttrs>().vocabulary;
  const std::int64_t first = first_index(call, cut, table.shape[0]),
                     all = cut.cut ? cut.whole : table.shape[0];
  for_each_row(context.pool, call.inputs[1].num_elems(), table.shape[1], [&](std::int64_t r) {
    const std::int64_t id = ids[static_cast<std::size_t>(r)];
    TS_ASSERT(id >= 0 && id < all);
    const auto count = static_cast<std::size_t>(row_bytes);
    if (id >= first && id < first + table.shape[0]) {
      std::memcpy(to + r * row_bytes, from + (id - first) * row_bytes, count);
    } else {
      std::memset(to + r * row_bytes, 0, count);
    }
  });
}

// Rows with the same id add to the same place, so a task owns a strip of columns instead of rows, and
// walks the tokens in order. (Ranges of ids instead would leave one task per token type in BERT.)
void embedding_grad(const KernelCall& call, Context& context) {
  constexpr std::int64_t kStrip = 128;
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  const auto ids = call.inputs[1].as<std::int32_t>();
  const std::int64_t vocabulary = call.outputs[0].shape[0], width = call.outputs[0].shape[1];
  const auto& attrs = call.attrs->as<EmbeddingAttrs>();
  const CutRange& cut = attrs.vocabulary;
  const std::int64_t first = first_index(call, cut, vocabulary), all = cut.cut ? cut.whole : vocabulary;
  const std::int64_t padding_id = attrs.padding_id;
  for_dtype(call.inputs[2].dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    const T* dy = call.inputs[2].as<T>().data();
    A* sums = call.outputs[0].as<A>().data();
    for_each_block(context.pool, width, kStrip, [=](std::int64_t begin, std::int64_t end) {
      for (std::size_t r = 0; r < ids.size(); ++r) {
        const std::int64_t id = ids[r];
        TS_ASSERT(id >= 0 && id < all);
        if (id < first || id >= first + vocabulary || id == padding_id) continue;
        const T* from = dy + static_cast<std::int64_t>(r) * width;
        A* to = sums + (id - first) * width;
#pragma omp simd
        for (std::int64_t c = begin; c < end; ++c) to[c] += widen(from[c]);
      }
    });
  });
}

}  // namespace tessera::cpu
