// slice, pad, concat: copies of pieces of rows, by bytes, so that no element type is named.
#include "tessera/ops/slice.h"

#include <cstring>

#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"

namespace tessera::cpu {
namespace {

// A run of columns in every row of a tensor.
struct Columns {
  std::byte* first_row;
  std::int64_t row_bytes;

  Columns(const TensorView& tensor, std::int64_t begin)
      : first_row(static_cast<std::byte*>(tensor.data) + begin * dtype_bytes(tensor.dtype)),
        row_bytes(tensor.shape[-1] * dtype_bytes(tensor.dtype)) {}
  std::byte* row(std::int64_t r) const { return first_row + r * row_bytes; }
};

void copy_columns(ThreadPool& pool, const Columns& from, const Columns& to, std::int64_t num_rows,
                  std::int64_t num_bytes) {
  for_each_block(pool, num_rows, rows_per_task(num_bytes / 4), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::memcpy(to.row(r), from.row(r), static_cast<std::size_t>(num_bytes));
    }
  });
}

}  // namespace

void slice(const KernelCall& call, Context& context) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  copy_columns(context.pool, Columns(x, call.attrs->as<SliceAttrs>().begin), Columns(y, 0),
               x.shape.num_rows(), Columns(y, 0).row_bytes);
}

void pad(const KernelCall& call, Context& context) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const std::int64_t begin = call.attrs->as<PadAttrs>().begin;
  const Columns from(x, 0), whole(y, 0), piece(y, begin), behind(y, begin + x.shape[-1]);
  const auto before_bytes = static_cast<std::size_t>(piece.first_row - whole.first_row);
  const auto piece_bytes = static_cast<std::size_t>(from.row_bytes);
  const std::size_t behind_bytes = static_cast<std::size_t>(whole.row_bytes) - before_bytes - piece_bytes;
  for_each_row(context.pool, y.shape.num_rows(), y.shape[-1], [&](std::int64_t r) {
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
    copy_columns(context.pool, from, Columns(y, begin), y.shape.num_rows(), from.row_bytes);
    begin += x.shape[-1];
  }
}

}  // namespace tessera::cpu
