#include "tessera/train/metrics_keys.h"

namespace tessera {

void declare_metrics(ConfigSchema& s, MetricsKeys& metrics) {
  s.choice("metrics.tags", &metrics.tags,
           "names of the numbers: nxd (step loss, learning rate, throughput, grad-norm) or nemo "
           "(reduced_train_loss, lr, gradient_norm, parameter_norm, ...)",
           {"nxd", "nemo"});
  s.boolean("metrics.tensorboard", &metrics.tensorboard,
            "write event files for TensorBoard into OUT/tensorboard");
  s.text("metrics.golden_losses", &metrics.golden_losses,
         "file of expected losses, one per line from step 1, such as golden_steploss.txt; a run that strays "
         "ends");
  s.number("metrics.golden_tolerance", &metrics.golden_tolerance,
           "how far a loss may be from the expected one, as a share of it", {.min = 0});
}

}  // namespace tessera
