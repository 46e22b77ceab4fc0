// add, mul, scale, zeros, sum_to.
#include "tessera/backend/cuda/column_sums.h"
#include "tessera/backend/cuda/map.cuh"
#include "tessera/ops/elementwise.h"

namespace tessera::cuda {
namespace {

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Mul {
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct Scale {
  float factor;
  __device__ float operator()(float x, float) const { return x * factor; }
};

template <class F>
void map_two(const KernelCall& call, Context& context, F f) {
  for_dtype(call.outputs[0].dtype, [&]<class T>(T) {
    map(context, data<T>(call.inputs[0]), data<T>(call.inputs[1]), data<T>(call.outputs[0]),
        call.outputs[0].num_elems(), call.inputs[1].num_elems(), f);
  });
}

}  // namespace

// b repeats every b.num_elems() elements.
void add(const KernelCall& call, Context& context) {
  map_two(call, context, Add{});
}

void mul(const KernelCall& call, Context& context) {
  map_two(call, context, Mul{});
}

void scale(const KernelCall& call, Context& context) {
  const Scale f{static_cast<float>(call.attrs->as<ScaleAttrs>().factor)};
  for_dtype(call.outputs[0].dtype, [&]<class T>(T) {
    map<T>(context, data<T>(call.inputs[0]), nullptr, data<T>(call.outputs[0]), call.outputs[0].num_elems(),
           0, f);
  });
}

// Zero is all bits clear in every type.
void zeros(const KernelCall& call, Context& context) {
  const TensorView& y = call.outputs[0];
  check_cuda(cudaMemsetAsync(y.data, 0, static_cast<std::size_t>(y.num_bytes()), context.stream),
             "clear a tensor");
}

void sum_to(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  const std::int64_t columns = call.outputs[0].num_elems();
  add_column_sums(context, call.inputs[1].dtype, call.inputs[1].data,
                  {call.inputs[1].num_elems() / columns, columns},
                  {data<float>(call.outputs[0]), call.starts_sums}, call.workspace);
}

}  // namespace tessera::cuda
