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

// Rows of `written` are written while other rows of `read` have not been read: the plan has put them apart,
// or, in place, row on row.
void assert_may_write(const TensorView& written, std::span<const TensorView> read) {
  for (const TensorView& view : read) {
    TS_ASSERT((written.data == view.data && same_type(written, view)) ||
              apart(written.data, written.num_bytes(), view.data, view.num_bytes()));
  }
}

}  // namespace

bool can_fuse_add_norm(const KernelCall& add, const KernelCall& norm) {
  const TensorView& sum = add.outputs[0];
  if (norm.inputs[0].data != sum.data || !same_type(norm.inputs[0], sum)) return false;
  if (!same_type(add.inputs[0], sum) || !same_type(add.inputs[1], sum) || !rows_of_packs(sum)) return false;
  const std::array<TensorView, 4> moved{add.inputs[0], add.inputs[1], sum, norm.outputs[0]};
  if (!std::ranges::all_of(moved, aligned)) return false;
  if (!std::ranges::all_of(norm.inputs, aligned)) return false;
  for (const TensorView& output : norm.outputs) assert_may_write(output, add.inputs);
  assert_may_write(sum, add.inputs);
  assert_may_write(sum, norm.inputs.subspan(1));
  return true;
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
  assert_may_write(sum, norm_grad.inputs);
  assert_may_write(sum, {&other, 1});
  for (const TensorView& output : norm_grad.outputs.subspan(1)) assert_may_write(output, {&other, 1});
  const auto& workspace = norm_grad.workspace;
  TS_ASSERT(apart(sum.data, sum.num_bytes(), workspace.data(), static_cast<std::int64_t>(workspace.size())));
  return true;
}

}  // namespace tessera::cuda
