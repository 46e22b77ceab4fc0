#include "tessera/backend/cuda/fused_norm.h"

#include <algorithm>
#include <array>

namespace tessera::cuda {
namespace {

// What the packs of norm_rows.cuh hold: a row of at most 2048 packs of 16 bytes, all of them whole.
bool rows_of_packs(const TensorView& view) {
  const std::int64_t row_bytes = view.shape[-1] * dtype_bytes(view.dtype);
  return row_bytes % 16 == 0 && row_bytes <= 2048 * 16;
}

bool aligned(const TensorView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
}

bool same_type(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

bool apart(const void* a, std::int64_t a_bytes, const void* b, std::int64_t b_bytes) {
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a), b_begin = reinterpret_cast<std::uintptr_t>(b);
  return a_begin + static_cast<std::uintptr_t>(a_bytes) <= b_begin ||
         b_begin + static_cast<std::uintptr_t>(b_bytes) <= a_begin;
}

// Whether rows of `written` may be written while other rows of `read` have not been read: they lie apart, or
// row on row.
bool may_write(const TensorView& written, const TensorView& read) {
  return (written.data == read.data && same_type(written, read)) ||
         apart(written.data, written.num_bytes(), read.data, read.num_bytes());
}

bool may_write(const TensorView& written, std::span<const TensorView> read) {
  return std::ranges::all_of(read, [&](const TensorView& view) { return may_write(written, view); });
}

}  // namespace

bool can_fuse_add_norm(const KernelCall& add, const KernelCall& norm) {
  const TensorView& sum = add.outputs[0];
  if (norm.inputs[0].data != sum.data || !same_type(norm.inputs[0], sum)) return false;
  if (!same_type(add.inputs[0], sum) || !same_type(add.inputs[1], sum) || !rows_of_packs(sum)) return false;
  const std::array<TensorView, 4> moved{add.inputs[0], add.inputs[1], sum, norm.outputs[0]};
  if (!std::ranges::all_of(moved, aligned)) return false;
  if (!std::ranges::all_of(norm.inputs, aligned)) return false;
  // A row of y may lie on that of an addend, which has been read by then. Statistics are smaller and never
  // do.
  return std::ranges::all_of(norm.outputs,
                             [&](const TensorView& output) { return may_write(output, add.inputs); }) &&
         may_write(sum, add.inputs) && may_write(sum, norm.inputs.subspan(1));
}

const TensorView& other_addend(const KernelCall& norm_grad, const KernelCall& add) {
  return add.inputs[norm_grad.outputs[0].data == add.inputs[0].data ? 1 : 0];
}

bool can_fuse_norm_grad_add(const KernelCall& norm_grad, const KernelCall& add) {
  const TensorView &dx = norm_grad.outputs[0], &sum = add.outputs[0], &other = other_addend(norm_grad, add);
  const bool first = add.inputs[0].data == dx.data, second = add.inputs[1].data == dx.data;
  if (first == second) return false;  // not its dx, or dx twice
  if (!same_type(dx, sum) || !same_type(other, sum) || !rows_of_packs(sum)) return false;
  const std::array<TensorView, 3> moved{sum, other, norm_grad.inputs[0]};
  if (!std::ranges::all_of(moved, aligned)) return false;
  if (!aligned(norm_grad.inputs[1]) || !aligned(norm_grad.inputs[2])) return false;
  const auto& workspace = norm_grad.workspace;
  return may_write(sum, norm_grad.inputs) && may_write(sum, other) &&
         apart(sum.data, sum.num_bytes(), workspace.data(), static_cast<std::int64_t>(workspace.size())) &&
         std::ranges::all_of(norm_grad.outputs.subspan(1),
                             [&](const TensorView& output) { return may_write(output, other); });
}

}  // namespace tessera::cuda
