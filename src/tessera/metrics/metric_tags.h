// MetricTags: under which names a step's numbers are shown and logged. People who come from one of two
// training stacks look for theirs: `nxd` for those of the BERT, GPT-NeoX and Llama scripts, `nemo` for those
// of GPT-3.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/metrics/event_message.h"
#include "tessera/metrics/step_report.h"

namespace tessera {

enum class MetricTags : std::uint8_t { nxd, nemo };

// nxd:  step loss, learning rate, throughput, grad-norm
// nemo: reduced_train_loss, lr, gradient_norm, parameter_norm, global_step, consumed_samples, throughput,
//       throughput_peak
// Both: the validation loss where there is one. Throughputs are in sequences per second.
std::vector<TaggedScalar> tagged_scalars(const StepReport& report, MetricTags tags);

// "loss 4.2312  lr 3.0e-04  grad 1.23  44.0 seq/s  45.1k tok/s  61% peak  512 MB": what a progress bar does
// not know. Under nemo: "reduced_train_loss 4.231  global_step 120  consumed_samples 960  lr ...".
std::string step_status(const StepReport& report, MetricTags tags);

// "step 120/2000  loss ..  1m12s left".
std::string step_line(const StepReport& report, MetricTags tags);

}  // namespace tessera
