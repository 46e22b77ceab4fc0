// slice, pad, concat: copies of pieces of rows, by bytes, so that no element type is named.
#include "tessera/ops/slice.h"

#include <cstring>

#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"

namespace tessera::cpu {
namespace {

// A run of columns in every row of a tensor. A row is all that lies from `dim` on, a column what lies behind.
struct Columns {
  std::byte* first_row;
  std::int64_t row_bytes, num_rows;

  Columns(const TensorView& tensor, std::int64_t begin, int dim = -1) {
    const std::int64_t column_bytes = dim_stride(tensor.shape, dim) * dtype_bytes(tensor.dtype);
    first_row = static_cast<std::byte*>(tensor.data) + begin * column_bytes;
    row_bytes = tensor.shape[dim] * column_bytes;
    num_rows = tensor.num_bytes() / row_bytes;
  }
  std::byte* row(std::int64_t r) const { return first_row + r * row_bytes; }
};

void copy_columns(ThreadPool& pool, const Columns& from, const Columns& to, std::int64_t num_bytes) {
  for_each_block(pool, to.num_rows, rows_per_task(num_bytes / 4), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::memcpy(to.row(r), from.row(r), static_cast<std::size_t>(num_bytes));
    }
  });
}

}  // namespace

void slice(const KernelCall& call, Context& context) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const auto& attrs = call.attrs->as<SliceAttrs>();
  const Columns to(y, 0, attrs.dim);
  copy_columns(context.pool, Columns(x, attrs.begin, attrs.dim), to, to.row_bytes);
}

void pad(const KernelCall& call, Context& context) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const auto& [begin, total, dim] = call.attrs->as<PadAttrs>();
  const Columns from(x, 0, dim), whole(y, 0, dim), piece(y, begin, dim), behind(y, begin + x.shape[dim], dim);
  const auto before_bytes = static_cast<std::size_t>(piece.first_row - whole.first_row);
  const auto piece_bytes = static_cast<std::size_t>(from.row_bytes);
  const std::size_t behind_bytes = static_cast<std::size_t>(whole.row_bytes) - before_bytes - piece_bytes;
  for_each_row(context.pool, whole.num_rows, whole.row_bytes, [&](std::int64_t r) {
    std::memset(whole.row(r), 0, before_bytes);
    std::memcpy(piece.row(r), from.row(r), piece_bytes);
    std::memset(behind.row(r), 0, behind_bytes);
  });
}

void concat(const KernelCall& call, Context& context) {
  const TensorView& y = call.outputs[0];
  std::int64_t begin = 0;
  for (const TensorView& x : call.inputs) {
    const Columns from(x, 0);
    copy_columns(context.pool, from, Columns(y, begin), from.row_bytes);
    begin += x.shape[-1];
  }
}

}  // namespace tessera::cpu
