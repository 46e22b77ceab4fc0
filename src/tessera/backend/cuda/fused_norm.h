// Two nodes in one kernel: an addition and the norm of its sum, a norm's gradient and the addition it goes
// into. The value between the two is rounded to its type as if it had been stored, so the bits are those of
// the two nodes one after the other. Run by the device where a plan has such a pair of nodes side by side.
//
// One kernel reads operands of the first node while it writes outputs of the second. The plan keeps their
// memory apart (plan/fuse_steps.h, plan/storage.h), which the predicates assert; what they decide is whether
// the shapes and addresses suit the kernels.
#pragma once

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

// norm is an rms_norm or a layer_norm of add's output, and add does not broadcast.
bool can_fuse_add_norm(const KernelCall& add, const KernelCall& norm);
// The sum and the norm's outputs are written.
void add_rms_norm(const KernelCall& add, const KernelCall& norm, Context& context);
void add_layer_norm(const KernelCall& add, const KernelCall& norm, Context& context);

// norm_grad is an rms_norm_grad or a layer_norm_grad whose dx is an operand of add and of nothing else, and
// add does not broadcast.
bool can_fuse_norm_grad_add(const KernelCall& norm_grad, const KernelCall& add);
// The weights' gradients and the sum are written; dx is not.
void rms_norm_grad_add(const KernelCall& norm_grad, const KernelCall& add, Context& context);
void layer_norm_grad_add(const KernelCall& norm_grad, const KernelCall& add, Context& context);

// What add adds to norm_grad's dx.
const TensorView& other_addend(const KernelCall& norm_grad, const KernelCall& add);

}  // namespace tessera::cuda
