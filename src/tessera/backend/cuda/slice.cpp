// slice, pad, concat: rectangles of bytes, which the copy engine moves; no element type is named.
#include "tessera/ops/slice.h"

#include "tessera/backend/cuda/copy_rectangle.h"
#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {
namespace {

// A run of columns in every row of a tensor. A row is all that lies from `dim` on, a column what lies behind.
struct Columns {
  std::byte* first_row;
  std::size_t row_bytes, num_rows;

  Columns(const TensorView& tensor, std::int64_t begin, int dim = -1) {
    const std::int64_t column_bytes = dim_stride(tensor.shape, dim) * dtype_bytes(tensor.dtype);
    first_row = static_cast<std::byte*>(tensor.data) + begin * column_bytes;
    row_bytes = static_cast<std::size_t>(tensor.shape[dim] * column_bytes);
    num_rows = static_cast<std::size_t>(tensor.num_bytes()) / row_bytes;
  }
};

void copy_columns(Context& context, const Columns& from, const Columns& to, std::size_t num_bytes) {
  copy_rectangle(to.first_row, from.first_row, {to.row_bytes, from.row_bytes}, num_bytes, to.num_rows,
                 context.stream, "copy columns");
}

}  // namespace

void slice(const KernelCall& call, Context& context) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const auto& attrs = call.attrs->as<SliceAttrs>();
  const Columns to(y, 0, attrs.dim);
  copy_columns(context, Columns(x, attrs.begin, attrs.dim), to, to.row_bytes);
}

void pad(const KernelCall& call, Context& context) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  check_cuda(cudaMemsetAsync(y.data, 0, static_cast<std::size_t>(y.num_bytes()), context.stream),
             "clear a tensor");
  const auto& attrs = call.attrs->as<PadAttrs>();
  const Columns from(x, 0, attrs.dim);
  copy_columns(context, from, Columns(y, attrs.begin, attrs.dim), from.row_bytes);
}

void concat(const KernelCall& call, Context& context) {
  const TensorView& y = call.outputs[0];
  std::int64_t begin = 0;
  for (const TensorView& x : call.inputs) {
    const Columns from(x, 0);
    copy_columns(context, from, Columns(y, begin), from.row_bytes);
    begin += x.shape[-1];
  }
}

}  // namespace tessera::cuda
