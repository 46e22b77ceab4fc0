// Curves of a run (loss over step) as one self-contained SVG file, without a plotting program.
// Made from the lines of JsonlLog at the end of training.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tessera/metrics/step_report.h"

namespace tessera {

struct CurvePoint {
  double x = 0;
  double y = 0;
};

struct CurveSeries {
  std::string name;
  std::vector<CurvePoint> points;  // x rising; points that are not finite are left out
  bool noisy = false;              // drawn as a smoothed line over the faint points' line, else as is
};

struct CurveChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<CurveSeries> series;
};

// Training loss of every step and, where there are any, evaluation losses.
CurveChart loss_chart(const std::string& title, std::span<const StepReport> reports);

std::string curve_svg(const CurveChart& chart);
void write_curve_svg(const std::filesystem::path& path, const CurveChart& chart);

}  // namespace tessera
