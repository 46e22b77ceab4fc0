// What the kernels that update parameters share: element types, which elements are this rank's, and the
// launches of update_table.cuh's kernel on them.
#pragma once

#include <span>

#include "tessera/backend/cuda/update_table.cuh"
#include "tessera/runtime/rank_part.h"

namespace tessera::cuda {

// Calls f with values of the types of: the parameter, its state, and the weight that is updated, which is the
// parameter or its master copy.
template <class F>
void for_update_types(DType param, DType state, bool has_master, F&& f) {
  if (param == DType::f32) {
    return state == DType::bf16 ? f(float{}, BFloat{}, float{}) : f(float{}, float{}, float{});
  }
  TS_ASSERT(param == DType::bf16);
  return has_master ? f(BFloat{}, float{}, float{}) : f(BFloat{}, BFloat{}, BFloat{});
}

// Where an update's operands lie: parameter and gradient whole, state and master copy as this rank's range.
struct UpdateTensors {
  const TensorView& param;
  const TensorView& grad;
  const TensorView* state1 = nullptr;
  const TensorView* state2 = nullptr;
  const TensorView* master = nullptr;
  ElementRange own = {};
};

template <class T, class S, class W>
UpdateElements<T, S, W> own_elements(const UpdateTensors& t) {
  UpdateElements<T, S, W> e{t.master ? data<W>(*t.master) : static_cast<W*>(t.param.data) + t.own.begin,
                            data<float>(t.grad) + t.own.begin,
                            t.state1 ? data<S>(*t.state1) : nullptr,
                            t.state2 ? data<S>(*t.state2) : nullptr,
                            data<T>(t.param) + t.own.begin,
                            t.own.size(),
                            false};
  const auto aligned = []<class E>(const E* at) {
    return reinterpret_cast<std::uintptr_t>(at) % (4 * sizeof(E)) == 0;
  };
  e.in_packs =
      aligned(e.weight) && aligned(e.grad) && aligned(e.state1) && aligned(e.state2) && aligned(e.rounded);
  return e;
}

// One rule on this rank's ranges of tensors that are all stored in the same types, as few launches as hold
// them. The bits do not depend on which tensors share a launch.
template <class Rule>
void run_updates(Context& context, std::span<const UpdateTensors> all, const Rule& rule) {
  const UpdateTensors& one = all.front();
  const DType state = one.state1 ? one.state1->dtype : one.param.dtype;
  for_update_types(one.param.dtype, state, one.master != nullptr, [&]<class T, class S, class W>(T, S, W) {
    UpdateTable<T, S, W> table;
    const auto launch = [&] {
      constexpr unsigned kMostBlocks = 132 * 5;  // as many as run at once
      if (table.num_chunks == 0) return;
      update_chunks<<<std::min(kMostBlocks, table.num_chunks), kThreads, 0, context.stream>>>(table, rule);
      table.num_tensors = table.num_chunks = 0;
    };
    for (const UpdateTensors& tensors : all) {
      if (tensors.own.size() == 0) continue;
      if (table.num_tensors == kUpdateTensors) launch();
      table.add(own_elements<T, S, W>(tensors));
    }
    launch();
  });
}

// The rule on this rank's range of one tensor.
template <class Rule>
void run_update(const KernelCall& call, Context& context, UpdateTensors tensors, const FlatRange& range,
                const Rule& rule) {
  tensors.own = own_range(call, range, tensors.param.num_elems());
  run_updates(context, std::span(&tensors, 1), rule);
}

}  // namespace tessera::cuda
