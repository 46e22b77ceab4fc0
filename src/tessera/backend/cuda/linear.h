// The matrix products of linear and its gradients, for whoever gives them another epilogue (fused_pairs.cpp).
#pragma once

#include "tessera/backend/cuda/gemm.h"
#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

Product linear_product(const KernelCall& call);
Product linear_grad_input_product(const KernelCall& call);
Product linear_grad_weight_product(const KernelCall& call);

}  // namespace tessera::cuda
