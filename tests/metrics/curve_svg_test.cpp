#include "tessera/metrics/curve_svg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "checkpoint/temporary_folder.h"
#include "tessera/base/mapped_file.h"

namespace tessera {
namespace {

std::vector<StepReport> falling_losses(std::int64_t steps) {
  std::vector<StepReport> reports(static_cast<std::size_t>(steps));
  for (std::int64_t i = 0; i < steps; ++i) {
    StepReport& report = reports[static_cast<std::size_t>(i)];
    const auto x = static_cast<double>(i + 1);
    report.step = i + 1;
    report.loss = 3 + 6 * std::exp(-x / 150) + 0.15 * std::sin(x * 12.9898) * std::cos(x * 78.233);
    if ((i + 1) % 200 == 0) report.eval_loss = 3.1 + 6 * std::exp(-x / 150);
  }
  return reports;
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// Every coordinate of every path lies on the picture.
void expect_paths_inside(const std::string& svg) {
  for (std::size_t start = svg.find(" d=\""); start != std::string::npos;
       start = svg.find(" d=\"", start + 1)) {
    const std::size_t end = svg.find('"', start + 4);
    for (std::size_t at = start + 4; at < end; at = svg.find_first_of("ML\"", at + 1)) {
      double x = -1, y = -1;
      ASSERT_EQ(std::sscanf(svg.substr(at + 1, 40).c_str(), "%lf %lf", &x, &y), 2);
      EXPECT_TRUE(x >= 0 && x <= 960 && y >= 0 && y <= 540) << x << " " << y;
    }
  }
}

TEST(CurveSvg, DrawsTrainAndEvalWithAxesAndLegend) {
  const std::string svg = curve_svg(loss_chart("llama & <co>", falling_losses(2000)));
  EXPECT_TRUE(svg.starts_with("<svg xmlns="));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count(svg, "<path"), 3u);     // raw and smoothed train, eval
  EXPECT_EQ(count(svg, "<circle"), 10u);  // one per evaluation
  EXPECT_NE(svg.find("llama &amp; &lt;co&gt;"), std::string::npos);
  EXPECT_NE(svg.find(">train 3.0"), std::string::npos);
  EXPECT_NE(svg.find(">eval 3.1"), std::string::npos);
  EXPECT_NE(svg.find(">2000</text>"), std::string::npos);
  EXPECT_EQ(svg.find(">-0"), std::string::npos);
  expect_paths_inside(svg);
}

TEST(CurveSvg, LongRunsStaySmall) {
  const std::string svg = curve_svg(loss_chart("long", falling_losses(300'000)));
  EXPECT_LT(svg.size(), 120'000u);
  expect_paths_inside(svg);
}

TEST(CurveSvg, FewFlatOrBrokenPointsAreDrawnToo) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<CurvePoint>& points : std::vector<std::vector<CurvePoint>>{
           {}, {{1, 2}}, {{1, 2}, {2, 2}}, {{1, nan}}, {{1, 0}, {2, 0}, {3, nan}}}) {
    for (const bool noisy : {false, true}) {
      const std::string svg = curve_svg({"t", "step", "loss", {{"train", points, noisy}}});
      EXPECT_EQ(svg.find("nan"), std::string::npos);
      EXPECT_EQ(svg.find("inf"), std::string::npos);
      expect_paths_inside(svg);
    }
  }
}

// A constant learning rate is a line in the middle, not at the bottom of an axis from -1 to 1; ticks keep
// apart.
TEST(CurveSvg, AxesFitSmallAndLargeNumbers) {
  const auto svg_of = [](double low, double high) {
    return curve_svg({"t", "step", "y", {{"last", {{1, low}, {2, high}}, false}}});
  };
  const std::string flat = svg_of(3e-4, 3e-4);
  EXPECT_NE(flat.find(">0.0003</text>"), std::string::npos);
  EXPECT_EQ(flat.find(">-"), std::string::npos);
  EXPECT_NE(svg_of(0, 4e-5).find(">1e-05</text>"), std::string::npos);
  EXPECT_NE(svg_of(0, 4e-5).find(">last 4.000e-05</text>"), std::string::npos);
  // Two rates that differ by a few last places only: an axis between them would have no numbers to count by.
  const std::string nearly_flat = svg_of(3e-4, std::nextafter(3e-4, 1));
  EXPECT_NE(nearly_flat.find(">0.0003</text>"), std::string::npos);
  EXPECT_LT(nearly_flat.size(), 2 * flat.size());
  const std::string fast = svg_of(100'100, 101'100);
  for (const char* tick : {">100k<", ">100.2k<", ">100.4k<", ">101k<"})
    EXPECT_EQ(count(fast, tick), 1u) << tick;
  EXPECT_NE(svg_of(0, 6e6).find(">2M</text>"), std::string::npos);
}

TEST(CurveSvg, HasColoursForLightAndDark) {
  const std::string svg = curve_svg(loss_chart("t", falling_losses(20)));
  EXPECT_EQ(count(svg, "prefers-color-scheme:dark"), 1u);
  const std::size_t drawing = svg.find("</style>");
  EXPECT_EQ(svg.find('#', drawing), std::string::npos)
      << "a colour that does not change with the surroundings";
}

TEST(CurveSvg, IsWrittenWhole) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "loss.svg";
  const CurveChart chart = loss_chart("a", falling_losses(300));
  write_curve_svg(path, chart);
  EXPECT_EQ(read_file(path), curve_svg(chart));
}

}  // namespace
}  // namespace tessera
