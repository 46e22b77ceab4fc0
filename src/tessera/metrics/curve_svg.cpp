#include "tessera/metrics/curve_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tessera/base/atomic_file.h"
#include "tessera/metrics/human.h"
#include "tessera/metrics/markup.h"

namespace tessera {
namespace {

constexpr double kWidth = 960, kHeight = 540;
constexpr double kLeft = 100, kRight = 36, kTop = 76, kBottom = 68;
constexpr std::size_t kNumColors = 4;

// Colours by the class of what is drawn, for light and for dark surroundings. In a page with several pictures
// these lines come several times, each time the same.
constexpr std::string_view kCurveStyle = R"(<style>
.curve-paper{fill:#fbfbfd}.curve-title{fill:#1b2130}.curve-text{fill:#6b7280}.curve-legend{fill:#31384a}
.curve-row{stroke:#e6e8ee}.curve-column{stroke:#f0f1f5}.curve-axis{stroke:#9aa1b1}
.curve-0{stroke:#2563eb}.curve-1{stroke:#f97316}.curve-2{stroke:#0d9488}.curve-3{stroke:#9333ea}
@media (prefers-color-scheme:dark){
.curve-paper{fill:#161a22}.curve-title{fill:#eceff5}.curve-text{fill:#9aa3b2}.curve-legend{fill:#d5dae4}
.curve-row{stroke:#2a303c}.curve-column{stroke:#222732}.curve-axis{stroke:#566073}
.curve-0{stroke:#6ea0ff}.curve-1{stroke:#ff9d57}.curve-2{stroke:#3cc7ba}.curve-3{stroke:#c08bff}}
</style>
)";

// A line has more pixels than this neither in width nor on paper; more points only make the file big.
constexpr std::size_t kMaxLinePoints = 1600;

using Points = std::vector<CurvePoint>;

Points finite_points(const Points& points) {
  Points kept;
  for (const CurvePoint& point : points)
    if (std::isfinite(point.x) && std::isfinite(point.y)) kept.push_back(point);
  return kept;
}

// Of each bucket of neighbours the lowest and the highest, so that spikes survive.
Points thinned(const Points& points) {
  if (points.size() <= kMaxLinePoints) return points;
  const std::size_t buckets = kMaxLinePoints / 2;
  Points kept;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    const auto first = points.begin() + static_cast<std::ptrdiff_t>(points.size() * bucket / buckets);
    const auto last = points.begin() + static_cast<std::ptrdiff_t>(points.size() * (bucket + 1) / buckets);
    auto [low, high] = std::minmax_element(first, last, [](auto& a, auto& b) { return a.y < b.y; });
    if (low > high) std::swap(low, high);
    kept.push_back(*low);
    if (low != high) kept.push_back(*high);
  }
  return kept;
}

// Mean over a window of a twentieth of the points. It is centred, so a falling curve is not drawn late;
// at the start, where losses fall fastest, it narrows to both sides alike; at the end it reaches back only.
Points smoothed(const Points& points) {
  const std::size_t half = (points.size() + 20) / 40;
  std::vector<double> sums(points.size() + 1, 0.0);
  for (std::size_t i = 0; i < points.size(); ++i) sums[i + 1] = sums[i] + points[i].y;
  Points means(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t left = std::min(i, half);
    const std::size_t right = std::min(left, points.size() - 1 - i);
    const double sum = sums[i + right + 1] - sums[i - left];
    means[i] = {points[i].x, sum / static_cast<double>(left + right + 1)};
  }
  return means;
}

// A range of numbers cut into steps of 1, 2 or 5 times a power of ten.
struct Axis {
  double low = 0, high = 1, step = 0.2;
  std::vector<double> ticks() const {
    std::vector<double> at;
    const double first = std::ceil(low / step - 1e-9);
    for (double k = first; k * step <= high + step * 1e-9; ++k) at.push_back(k * step + 0.0);  // no "-0"
    return at;
  }
};

Axis nice_axis(double low, double high, int wanted_steps) {
  const double largest = std::max(std::abs(low), std::abs(high));
  if (!(high - low > 1e-12 * largest)) {  // one value, but for its last places: room around it
    const double room = largest == 0 ? 0.5 : largest * 0.1;
    low -= room;
    high += room;
  }
  const double raw = (high - low) / wanted_steps;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double digit = raw / power;
  const double step = power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
  return {low, high, step};
}

Axis snapped(Axis axis) {
  axis.low = std::floor(axis.low / axis.step + 1e-9) * axis.step;
  axis.high = std::ceil(axis.high / axis.step - 1e-9) * axis.step;
  return axis;
}

struct Frame {
  Axis x, y;
  double px(double value) const {
    return kLeft + (value - x.low) / (x.high - x.low) * (kWidth - kLeft - kRight);
  }
  double py(double value) const {
    return kHeight - kBottom - (value - y.low) / (y.high - y.low) * (kHeight - kTop - kBottom);
  }
};

Frame frame_of(const std::vector<CurveSeries>& series) {
  Points all;
  for (const CurveSeries& one : series) all.insert(all.end(), one.points.begin(), one.points.end());
  if (all.empty()) return {};
  const auto [left, right] =
      std::minmax_element(all.begin(), all.end(), [](auto& a, auto& b) { return a.x < b.x; });
  const auto [low, high] =
      std::minmax_element(all.begin(), all.end(), [](auto& a, auto& b) { return a.y < b.y; });
  Frame frame{nice_axis(left->x, right->x, 8), snapped(nice_axis(low->y, high->y, 6))};
  // Steps count from 1, but an axis that begins at 0 reads better.
  if (frame.x.low > 0 && frame.x.low < frame.x.step) frame.x.low = 0;
  return frame;
}

std::string text_at(double x, double y, std::string_view style, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, style, escaped_markup(text));
}

std::string x_tick_text(double value, double step) {
  if (step < 1) return fmt::format("{:g}", value);
  const bool whole_thousands = std::fmod(step, 1000) == 0;
  return whole_thousands && value >= 1000 ? fmt::format("{:g}k", value / 1000) : fmt::format("{:.0f}", value);
}

// All ticks of an axis with the same decimals; those of very small steps (learning rates) as powers of ten,
// those of large ones in thousands or millions.
std::string y_tick_text(double value, double step) {
  if (value == 0) return "0";
  const double whole = std::round(value / step) * step;
  if (step < 1e-3) return fmt::format("{:g}", whole);
  if (step >= 1e5) return fmt::format("{:g}M", whole / 1e6);
  if (step >= 100) return fmt::format("{:g}k", whole / 1e3);
  return fmt::format("{:.{}f}", value, std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9))));
}

// Four digits, whatever the size.
std::string value_text(double value) {
  return std::abs(value) >= 10'000 ? human_count(value) : fmt::format("{:#.4g}", value);
}

std::string grid(const Frame& frame, const CurveChart& chart) {
  const double bottom = kHeight - kBottom;
  std::string svg;
  for (const double tick : frame.y.ticks()) {
    const double y = frame.py(tick);
    svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"curve-row\"/>\n", kLeft,
                       kWidth - kRight, y, y);
    svg += text_at(kLeft - 12, y + 4.5, "class=\"curve-text\" text-anchor=\"end\"",
                   y_tick_text(tick, frame.y.step));
  }
  for (const double tick : frame.x.ticks()) {
    const double x = frame.px(tick);
    svg += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" class=\"curve-column\"/>\n", x,
                       x, kTop, bottom);
    svg += text_at(x, bottom + 22, "class=\"curve-text\" text-anchor=\"middle\"",
                   x_tick_text(tick, frame.x.step));
  }
  svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" class=\"curve-axis\"/>\n", kLeft,
                     kWidth - kRight, bottom, bottom);
  svg += text_at((kLeft + kWidth - kRight) / 2, kHeight - 22, "class=\"curve-text\" text-anchor=\"middle\"",
                 chart.x_label);
  svg += text_at(
      0, 0,
      fmt::format("class=\"curve-text\" text-anchor=\"middle\" transform=\"translate(24 {}) rotate(-90)\"",
                  (kTop + bottom) / 2),
      chart.y_label);
  return svg;
}

std::string line_of(const Frame& frame, const Points& points, std::string_view style) {
  if (points.empty()) return "";
  std::string path;
  for (const CurvePoint& point : points)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", frame.px(point.x), frame.py(point.y));
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke-linejoin=\"round\" stroke-linecap=\"round\" {}/>\n",
                     path, style);
}

std::string drawn(const Frame& frame, const CurveSeries& series, std::size_t color) {
  std::string svg;
  if (series.noisy) {
    svg += line_of(frame, thinned(series.points),
                   fmt::format("class=\"curve-{}\" stroke-width=\"1\" opacity=\"0.28\"", color));
    svg += line_of(frame, thinned(smoothed(series.points)),
                   fmt::format("class=\"curve-{}\" stroke-width=\"2.4\"", color));
    return svg;
  }
  svg += line_of(frame, thinned(series.points), fmt::format("class=\"curve-{}\" stroke-width=\"2\"", color));
  constexpr std::size_t kMostDots = 60;  // more would hide the line
  if (series.points.size() > kMostDots) return svg;
  for (const CurvePoint& point : series.points)
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.6\" class=\"curve-paper curve-{}\" stroke-width=\"2\"/>\n",
        frame.px(point.x), frame.py(point.y), color);
  return svg;
}

// Top right, from the right edge leftwards: a falling loss leaves that corner free of lines anyway.
std::string legend(const std::vector<CurveSeries>& series) {
  std::string svg;
  double right = kWidth - kRight;
  for (std::size_t i = series.size(); i-- > 0;) {
    const Points last = series[i].noisy ? smoothed(series[i].points) : series[i].points;
    const std::string text =
        last.empty() ? series[i].name : fmt::format("{} {}", series[i].name, value_text(last.back().y));
    svg += text_at(right, 44, "class=\"curve-legend\" text-anchor=\"end\"", text);
    const double start = right - 8.2 * static_cast<double>(text.size()) - 34;  // by the font's mean width
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"39.5\" y2=\"39.5\" class=\"curve-{}\" "
        "stroke-width=\"3\" stroke-linecap=\"round\"/>\n",
        start, start + 24, i % kNumColors);
    right = start - 26;
  }
  return svg;
}

}  // namespace

CurveChart loss_chart(const std::string& title, std::span<const StepReport> reports) {
  CurveSeries train{"train", {}, true}, eval{"eval", {}, false};
  for (const StepReport& report : reports) {
    const auto step = static_cast<double>(report.step);
    train.points.push_back({step, report.loss});
    if (report.eval_loss) eval.points.push_back({step, *report.eval_loss});
  }
  CurveChart chart{title, "step", "loss", {std::move(train)}};
  if (!eval.points.empty()) chart.series.push_back(std::move(eval));
  return chart;
}

std::string curve_svg(const CurveChart& chart) {
  std::vector<CurveSeries> series = chart.series;
  for (CurveSeries& one : series) one.points = finite_points(one.points);
  const Frame frame = frame_of(series);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif\" font-size=\"15\">\n{2}"
      "<rect width=\"{0}\" height=\"{1}\" rx=\"10\" class=\"curve-paper\"/>\n",
      kWidth, kHeight, kCurveStyle);
  svg += text_at(kLeft, 44, "font-size=\"19\" font-weight=\"600\" class=\"curve-title\"", chart.title);
  svg += grid(frame, chart);
  for (std::size_t i = 0; i < series.size(); ++i) svg += drawn(frame, series[i], i % kNumColors);
  return svg + legend(series) + "</svg>\n";
}

void write_curve_svg(const std::filesystem::path& path, const CurveChart& chart) {
  write_file(path, curve_svg(chart));
}

}  // namespace tessera
