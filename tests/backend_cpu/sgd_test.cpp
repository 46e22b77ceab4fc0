#include "tessera/ops/sgd.h"

#include "backend_cpu/kernel_run.h"

namespace tessera::cpu {
namespace {

// One step by the formulas of torch.optim.SGD (momentum, weight_decay, no dampening, not Nesterov).
TEST(CpuSgd, AsTorch) {
  const SgdAttrs attrs{.momentum = 0.8, .weight_decay = 0.1};
  for (DType dtype : kFloatingTypes) {
    const DType sums = accumulate_dtype(dtype);
    // fp32 or bf16 moments; a bf16 parameter without low halves is updated itself.
    for (DType state : dtype == DType::f64 ? std::vector{sums} : std::vector{sums, DType::bf16}) {
      for (std::int64_t n : {1, 3, 17, 1000, 40000}) {
        const bool split = dtype == DType::bf16 && state != DType::bf16;
        const HostTensor start = random_tensor(sums, {n}, 1), grad = random_tensor(sums, {n}, 2);
        const HostTensor momentum = random_tensor(state, {n}, 3), param({dtype, {n}}, start.values());
        std::vector<HostTensor> inputs = {param, grad, momentum, HostTensor({sums, {}}, {0.125}),
                                          HostTensor({sums, {}}, {0.75})};
        if (split) inputs.push_back(low_halves(start.values()));
        std::vector<double> weight = split ? start.values() : param.values();
        std::vector<double> wanted_momentum = momentum.values();
        const std::vector<double> gradients = grad.values();
        for (std::size_t i = 0; i < weight.size(); ++i) {
          const double g = 0.75 * gradients[i] + 0.1 * weight[i];
          wanted_momentum[i] = 0.8 * wanted_momentum[i] + g;
          weight[i] -= 0.125 * wanted_momentum[i];
        }
        const auto found = run_kernel(cpu::sgd, Op::sgd, attrs, inputs);
        expect_close(found[0], weight, dtype);
        expect_close(found[1], wanted_momentum, state);
        if (split) expect_close(joined(found[0], found[2]), weight, sums);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
