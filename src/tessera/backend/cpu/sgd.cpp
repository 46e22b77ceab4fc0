#include "tessera/ops/sgd.h"

#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/scalar.h"
#include "tessera/backend/cpu/update_types.h"

namespace tessera::cpu {

void sgd(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data && call.inputs[2].data == call.outputs[1].data);
  const auto& attrs = call.attrs->as<SgdAttrs>();
  const TensorView* const low = call.outputs.size() == 3 ? &call.outputs[2] : nullptr;
  const ElementRange own = own_range(call, attrs.range, call.inputs[0].num_elems());
  for_update_types(
      call.outputs[0], low, own, call.inputs[2].dtype, call.inputs[1].dtype,
      [&]<class W, class S, class G>(W weight, S, G) {
        using A = Accumulate<typename W::Value>;
        const A rate = static_cast<A>(scalar(call.inputs[3])), clip = static_cast<A>(scalar(call.inputs[4]));
        const A decay = static_cast<A>(attrs.weight_decay), kept = static_cast<A>(attrs.momentum);
        const G* const grad = call.inputs[1].as<G>().data() + own.begin;
        S* const momentum = call.outputs[1].as<S>().data();
        for_each_elem_block(context.pool, own.size(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            const A before = weight.get(i);
            const A m = kept * widen(momentum[i]) + (widen(grad[i]) * clip + decay * before);
            put(momentum[i], m);
            weight.set(i, before - rate * m);
          }
        });
      });
}

}  // namespace tessera::cpu
