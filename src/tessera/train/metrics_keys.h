// MetricsKeys: the keys metrics.* of a run's config: what it shows and keeps of its numbers, and what they
// are checked against. A part of RunConfig.
#pragma once

#include <string>

#include "tessera/metrics/metric_tags.h"
#include "tessera/train/config_schema.h"

namespace tessera {

struct MetricsKeys {
  MetricTags tags = MetricTags::nxd;
  bool tensorboard = true;
  std::string golden_losses;  // empty: no check
  double golden_tolerance = 0.23;
  bool operator==(const MetricsKeys&) const = default;
};

void declare_metrics(ConfigSchema& schema, MetricsKeys& metrics);

}  // namespace tessera
