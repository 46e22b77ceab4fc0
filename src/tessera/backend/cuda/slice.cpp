// slice, pad, concat: rectangles of bytes, which the copy engine moves; no element type is named.
#include "tessera/ops/slice.h"

#include "tessera/backend/cuda/cuda_call.h"
#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {
namespace {

// A run of columns in every row of a tensor.
struct Columns {
  std::byte* first_row;
  std::size_t row_bytes;

  Columns(const TensorView& tensor, std::int64_t begin)
      : first_row(static_cast<std::byte*>(tensor.data) + begin * dtype_bytes(tensor.dtype)),
        row_bytes(static_cast<std::size_t>(tensor.shape[-1] * dtype_bytes(tensor.dtype))) {}
};

void copy_columns(Context& context, const Columns& from, const Columns& to, std::int64_t num_rows,
                  std::size_t num_bytes) {
  check_cuda(cudaMemcpy2DAsync(to.first_row, to.row_bytes, from.first_row, from.row_bytes, num_bytes,
                               static_cast<std::size_t>(num_rows), cudaMemcpyDeviceToDevice, context.stream),
             "copy columns");
}

}  // namespace

void slice(const KernelCall& call, Context& context) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const Columns to(y, 0);
  copy_columns(context, Columns(x, call.attrs->as<SliceAttrs>().begin), to, x.shape.num_rows(), to.row_bytes);
}

void pad(const KernelCall& call, Context& context) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  check_cuda(cudaMemsetAsync(y.data, 0, static_cast<std::size_t>(y.num_bytes()), context.stream),
             "clear a tensor");
  const Columns from(x, 0);
  copy_columns(context, from, Columns(y, call.attrs->as<PadAttrs>().begin), y.shape.num_rows(),
               from.row_bytes);
}

void concat(const KernelCall& call, Context& context) {
  const TensorView& y = call.outputs[0];
  std::int64_t begin = 0;
  for (const TensorView& x : call.inputs) {
    const Columns from(x, 0);
    copy_columns(context, from, Columns(y, begin), y.shape.num_rows(), from.row_bytes);
    begin += x.shape[-1];
  }
}

}  // namespace tessera::cuda
