#include "tessera/metrics/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "tessera/metrics/human.h"

namespace tessera {
namespace {

constexpr int kMinBarColumns = 10;
constexpr int kMaxBarColumns = 30;
constexpr int kTailColumns = 11;
constexpr std::string_view kClearToEnd = "\x1b[K";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// Columns of UTF-8 text, taking every character as one column wide.
int columns(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string cut_to_columns(std::string_view text, int width) {
  if (columns(text) <= width) return std::string(text);
  if (width <= 0) return "";
  int seen = 0;
  std::size_t end = 0;
  for (; end < text.size(); ++end)
    if (begins_character(text[end]) && seen++ == width - 1) break;
  return std::string(text.substr(0, end)) + "…";
}

// Whole cells, then one of eighths, so that the bar moves more often than once per cell.
std::string bar_cells(double share, int width) {
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(share * width * 8);
  std::string cells;
  for (int i = 0; i < eighths / 8; ++i) cells += "█";
  cells += kEighths[eighths % 8];
  for (int used = (eighths + 7) / 8; used < width; ++used) cells += " ";
  return cells;
}

}  // namespace

ProgressBar::ProgressBar(std::FILE* out, ProgressOptions options)
    : out_(out), options_(std::move(options)), done_(options_.start) {
  if (!options_.now) options_.now = steady_seconds;
  start_time_ = last_output_time_ = options_.now();
}

ProgressBar::~ProgressBar() {
  if (!bar_is_shown_) return;
  std::fputs("\n", out_);
  std::fflush(out_);
}

double ProgressBar::seconds_left() const {
  if (seconds_left_) return *seconds_left_;
  const double elapsed = options_.now() - start_time_;
  const auto finished = static_cast<double>(done_ - options_.start);
  return elapsed * static_cast<double>(options_.total - done_) / finished;  // not finite at the start: "?"
}

std::string ProgressBar::picture() const {
  if (options_.total <= 0)
    return cut_to_columns(fmt::format("{}  {}", options_.label, status_), options_.width - 1);
  const double share = std::clamp(static_cast<double>(done_) / static_cast<double>(options_.total), 0.0, 1.0);
  const std::string head = fmt::format("{} {:3.0f}% ", options_.label, std::floor(share * 100));
  const std::string tail = done_ >= options_.total ? human_duration(options_.now() - start_time_)
                                                   : human_duration(seconds_left()) + " left";
  // The last column stays free: a full line makes some terminals wrap. Room for "59m59s left" is kept
  // so that the bar does not change its length with every digit.
  const int room = options_.width - 1 - columns(head) - std::max(columns(tail), kTailColumns) - 2;
  const int bar = std::min(kMaxBarColumns, room - 4 - columns(status_));
  if (bar >= kMinBarColumns) return fmt::format("{}▕{}▏ {}  {}", head, bar_cells(share, bar), status_, tail);
  return cut_to_columns(fmt::format("{} {}  {}", head, cut_to_columns(status_, room - 1), tail),
                        options_.width - 1);
}

std::string ProgressBar::plain_line() const {
  if (options_.total <= 0) return fmt::format("{}  {}", options_.label, status_);
  const std::int64_t percent = std::min<std::int64_t>(100, done_ * 100 / options_.total);
  if (done_ >= options_.total)
    return fmt::format("{} {}%  {}  {}", options_.label, percent, status_,
                       human_duration(options_.now() - start_time_));
  return fmt::format("{} {}%  {}  {} left", options_.label, percent, status_, human_duration(seconds_left()));
}

// A line that a full disk or a closed terminal does not take is lost; the work goes on.
void ProgressBar::write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out_);
}

void ProgressBar::draw() {
  if (options_.terminal) {
    write(fmt::format("\r{}{}", picture(), kClearToEnd));
    bar_is_shown_ = true;
  } else {
    write(plain_line() + "\n");
  }
  std::fflush(out_);
  last_output_time_ = options_.now();
  any_output_ = true;
}

void ProgressBar::update(std::int64_t done, std::string_view status, std::optional<double> seconds_left) {
  done_ = done;
  status_ = status;
  seconds_left_ = seconds_left;
  const double interval = options_.terminal ? options_.redraw_seconds : options_.line_seconds;
  // A terminal gets its first picture at once; a log file only hears of jobs that take a while.
  const bool first_picture = options_.terminal && !any_output_;
  if (first_picture || options_.now() - last_output_time_ >= interval) draw();
}

void ProgressBar::print_line(std::string_view line) {
  if (bar_is_shown_) write(fmt::format("\r{}", kClearToEnd));
  write(fmt::format("{}\n", line));
  if (bar_is_shown_) write(fmt::format("\r{}{}", picture(), kClearToEnd));
  std::fflush(out_);
}

void ProgressBar::finish(std::string_view status) {
  done_ = options_.total;
  status_ = status;
  draw();
  if (options_.terminal) std::fputs("\n", out_);
  std::fflush(out_);
  bar_is_shown_ = false;
}

}  // namespace tessera
