// ProgressBar: how far a long job is: one line redrawn in place on a terminal, plain lines elsewhere.
//
//   ProgressBar bar(stderr, {.label = "train", .total = steps, .terminal = isatty(2) != 0});
//   bar.update(step, "loss 4.23");   // as often as you like, from one thread
//   bar.finish("loss 3.91");
//
// Made by the commands (train, eval, data, BPE training), which know what stderr is; never by a library.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

struct ProgressOptions {
  std::string label = {};
  std::int64_t total = 0;  // 0: not known; no percentage and no time left
  std::int64_t start = 0;  // where a resumed job begins: not counted into its speed
  bool terminal = false;
  int width = 80;                    // columns of the terminal
  double redraw_seconds = 0.1;       // terminal: at most ten pictures a second
  double line_seconds = 10;          // elsewhere: at most one line in so many; infinity: print_line only
  std::function<double()> now = {};  // seconds; empty: a steady clock
};

class ProgressBar {
 public:
  ProgressBar(std::FILE* out, ProgressOptions options);
  ~ProgressBar();  // leaves the cursor on a fresh line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // seconds_left: as the caller knows it, which is then shown; else by the speed so far.
  void update(std::int64_t done, std::string_view status, std::optional<double> seconds_left = {});
  void print_line(std::string_view line);  // stays: above the bar on a terminal
  void finish(std::string_view status);    // the last picture or line, at 100 %

  bool terminal() const { return options_.terminal; }

 private:
  double seconds_left() const;
  std::string picture() const;  // label, percentage, bar, status and time left within the width
  std::string plain_line() const;
  void write(std::string_view text);
  void draw();

  std::FILE* out_;
  ProgressOptions options_;
  double start_time_ = 0;
  double last_output_time_ = 0;
  std::int64_t done_ = 0;
  std::string status_;
  std::optional<double> seconds_left_;
  bool any_output_ = false;
  bool bar_is_shown_ = false;
};

}  // namespace tessera
