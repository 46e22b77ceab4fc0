// What the kernels that update parameters share: their element types, and which elements are this rank's.
#pragma once

#include "tessera/backend/cpu/element.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cpu {

// Calls f with values of the types of: the parameter, its state, and the weight that is updated, which is
// the parameter or its master copy.
template <class F>
void for_update_types(DType param, DType state, bool has_master, F&& f) {
  switch (param) {
    case DType::f64:
      return f(double{}, double{}, double{});
    case DType::f32:
      return state == DType::bf16 ? f(float{}, Bf16{}, float{}) : f(float{}, float{}, float{});
    case DType::bf16:
      return has_master ? f(Bf16{}, float{}, float{}) : f(Bf16{}, Bf16{}, Bf16{});
    case DType::i32:
      break;
  }
  TS_ASSERT(!"floating type");
}

// Where this rank's range begins in the weight: at the start of a master copy, which is the range alone.
template <class W>
W* own_weight(const TensorView& param, const TensorView* master, const ElementRange& own) {
  return master ? master->as<W>().data() : param.as<W>().data() + own.begin;
}

}  // namespace tessera::cpu
