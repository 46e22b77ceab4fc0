// What a CPU kernel gets, and the table of kernels. A kernel is a function cpu::<op>(call, context) in
// <op's file>.cpp; op_list.def expands to their declarations, so a missing one is a link error.
//
// Kernels cut their loops into tasks by shape alone (see ThreadPool), write every element of their
// outputs, allocate nothing and do not throw: shapes were checked when the graph was built.
#pragma once

#include <type_traits>

#include "tessera/base/thread_pool.h"
#include "tessera/runtime/device.h"

namespace tessera::cpu {

struct Context {
  ThreadPool& pool;
};

// What sums of T are kept in.
template <class T>
using Accumulate = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls f with a value of the element type, for one of the floating types.
template <class F>
void for_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(Bf16{});
    case DType::f64:
      return f(double{});
    case DType::i32:
    case DType::i16:
      break;
  }
  TS_ASSERT(!"floating type");
}

#define TESSERA_OP(name) void name(const KernelCall& call, Context& context);
#include "tessera/graph/op_list.def"
#undef TESSERA_OP

// Scratch a node needs on `num_threads` threads; most need none.
std::int64_t workspace_bytes(const Graph& graph, const Node& node, int num_threads);

}  // namespace tessera::cpu
