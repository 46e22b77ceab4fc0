#include "tessera/ops/sgd.h"

#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/scalar.h"
#include "tessera/backend/cpu/update_types.h"

namespace tessera::cpu {

void sgd(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data && call.inputs[2].data == call.outputs[1].data);
  const auto& attrs = call.attrs->as<SgdAttrs>();
  const TensorView* const master = call.outputs.size() == 3 ? &call.outputs[2] : nullptr;
  const ElementRange own = own_range(call, attrs.range, call.inputs[0].num_elems());
  for_update_types(
      call.inputs[0].dtype, call.inputs[2].dtype, master, [&]<class T, class S, class W>(T, S, W) {
        using A = Accumulate<W>;
        const A rate = static_cast<A>(scalar(call.inputs[3])), clip = static_cast<A>(scalar(call.inputs[4]));
        const A decay = static_cast<A>(attrs.weight_decay), kept = static_cast<A>(attrs.momentum);
        W* const weight = own_weight<W>(call.outputs[0], master, own);
        const A* const grad = call.inputs[1].as<A>().data() + own.begin;
        S* const momentum = call.outputs[1].as<S>().data();
        T* const rounded = call.outputs[0].as<T>().data() + own.begin;
        for_each_elem_block(context.pool, own.size(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            const A before = widen(weight[i]);
            const A m = kept * widen(momentum[i]) + (grad[i] * clip + decay * before);
            const A w = before - rate * m;
            put(momentum[i], m);
            put(weight[i], w);
            if constexpr (!std::is_same_v<T, W>) put(rounded[i], w);
          }
        });
      });
}

}  // namespace tessera::cpu
