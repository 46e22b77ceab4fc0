// What the kernels that update parameters share: element types, which elements are this rank's, and the
// launches of update_table.cuh's kernel on them.
#pragma once

#include <span>

#include "tessera/backend/cuda/update_table.cuh"
#include "tessera/runtime/rank_part.h"

namespace tessera::cuda {

// Where an update's operands lie: parameter and gradient whole, state and low halves as this rank's range.
struct UpdateTensors {
  const TensorView& param;
  const TensorView& grad;
  const TensorView* state1 = nullptr;
  const TensorView* state2 = nullptr;
  const TensorView* low = nullptr;
  ElementRange own = {};
  std::uint64_t parameter_hash = 0;

  DType state_dtype() const { return state1 ? state1->dtype : param.dtype; }
};

// Calls f with the UpdateTypes of the tensors. A rule that keeps a direction in the gradient's place needs it
// wide.
template <class Rule, class F>
void for_update_types(const UpdateTensors& t, F&& f) {
  if (t.param.dtype == DType::f32) {
    return t.state_dtype() == DType::bf16 ? f(UpdateTypes<float, BFloat, float, false>{})
                                          : f(UpdateTypes<float, float, float, false>{});
  }
  TS_ASSERT(t.param.dtype == DType::bf16);
  if constexpr (Rule::kWritesWeight && Rule::kStates > 0) {
    if (t.grad.dtype == DType::bf16) {
      return t.low ? f(UpdateTypes<BFloat, float, BFloat, true>{})
                   : f(UpdateTypes<BFloat, BFloat, BFloat, false>{});
    }
  }
  return t.low ? f(UpdateTypes<BFloat, float, float, true>{})
               : f(UpdateTypes<BFloat, BFloat, float, false>{});
}

template <class Types>
UpdateElements<Types> own_elements(const UpdateTensors& t) {
  using S = typename Types::State;
  UpdateElements<Types> e{data<typename Types::Param>(t.param) + t.own.begin,
                          t.low ? data<std::int16_t>(*t.low) : nullptr,
                          data<typename Types::Grad>(t.grad) + t.own.begin,
                          t.state1 ? data<S>(*t.state1) : nullptr,
                          t.state2 ? data<S>(*t.state2) : nullptr,
                          t.own.size(),
                          t.own.begin,
                          t.parameter_hash,
                          false};
  const auto aligned = []<class E>(const E* at) {
    return reinterpret_cast<std::uintptr_t>(at) % (kUpdatePack * sizeof(E)) == 0;
  };
  e.in_packs =
      aligned(e.param) && aligned(e.low) && aligned(e.grad) && aligned(e.state1) && aligned(e.state2);
  return e;
}

// One rule on this rank's ranges of tensors that are all stored in the same types, as few launches as hold
// them. The bits do not depend on which tensors share a launch.
template <class Rule>
void run_updates(Context& context, std::span<const UpdateTensors> all, const Rule& rule) {
  for_update_types<Rule>(all.front(), [&]<class Types>(Types) {
    UpdateTable<Types> table;
    const auto launch = [&] {
      if (table.num_chunks == 0) return;
      const unsigned most = resident_blocks(update_chunks<Rule, Types>);
      update_chunks<<<std::min(most, table.num_chunks), kThreads, 0, context.stream>>>(table, rule);
      table.num_tensors = table.num_chunks = 0;
    };
    for (const UpdateTensors& tensors : all) {
      if (tensors.own.size() == 0) continue;
      if (table.num_tensors == kUpdateTensors) launch();
      table.add(own_elements<Types>(tensors));
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
