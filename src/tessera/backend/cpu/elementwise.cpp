// add, mul, scale, zeros, sum_to.
#include "tessera/ops/elementwise.h"

#include <cstring>

#include "tessera/backend/cpu/column_sums.h"
#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"

namespace tessera::cpu {

// a[..., suffix] + b[suffix]: b repeats every b.num_elems() elements. Blocks are cut from the flat
// tensor, whether b is a short bias or as large as a.
void add(const KernelCall& call, Context& context) {
  for_dtype(call.outputs[0].dtype, [&]<class T>(T) {
    const T* a = call.inputs[0].as<T>().data();
    const T* b = call.inputs[1].as<T>().data();
    T* y = call.outputs[0].as<T>().data();
    const std::int64_t period = call.inputs[1].num_elems();
    for_each_elem_block(context.pool, call.outputs[0].num_elems(), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t b_at = at % period;
        const std::int64_t run = std::min(end - at, period - b_at);
#pragma omp simd
        for (std::int64_t i = 0; i < run; ++i) {
          put(y[at + i], widen(a[at + i]) + widen(b[b_at + i]));
        }
        at += run;
      }
    });
  });
}

void mul(const KernelCall& call, Context& context) {
  for_dtype(call.outputs[0].dtype, [&]<class T>(T) {
    const T* a = call.inputs[0].as<T>().data();
    const T* b = call.inputs[1].as<T>().data();
    T* y = call.outputs[0].as<T>().data();
    for_each_elem_block(context.pool, call.outputs[0].num_elems(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        put(y[i], widen(a[i]) * widen(b[i]));
      }
    });
  });
}

void scale(const KernelCall& call, Context& context) {
  for_dtype(call.outputs[0].dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    const auto factor = static_cast<A>(call.attrs->as<ScaleAttrs>().factor);
    const T* x = call.inputs[0].as<T>().data();
    T* y = call.outputs[0].as<T>().data();
    for_each_elem_block(context.pool, call.outputs[0].num_elems(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) put(y[i], widen(x[i]) * factor);
    });
  });
}

// Zero is all bits clear in every type.
void zeros(const KernelCall& call, Context& context) {
  auto* y = static_cast<std::byte*>(call.outputs[0].data);
  for_each_block(context.pool, call.outputs[0].num_bytes(), 4 * kTaskElems,
                 [=](std::int64_t begin, std::int64_t end) {
                   std::memset(y + begin, 0, static_cast<std::size_t>(end - begin));
                 });
}

void sum_to(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  for_dtype(call.inputs[1].dtype, [&]<class T>(T) {
    add_column_sums<T>(context.pool, call.inputs[1].as<T>(), call.outputs[0].as<Accumulate<T>>());
  });
}

}  // namespace tessera::cpu
