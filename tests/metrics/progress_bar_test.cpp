#include "tessera/metrics/progress_bar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>

namespace tessera {
namespace {

// A bar that writes into memory and whose clock the test moves.
class ProgressBarTest : public testing::Test {
 protected:
  void SetUp() override { file_ = open_memstream(&text_, &size_); }
  void TearDown() override {
    bar_.reset();
    std::fclose(file_);
    std::free(text_);
  }

  ProgressBar& make(ProgressOptions options) {
    options.now = [this] { return time_; };
    return bar_.emplace(file_, options);
  }

  // What was written since the last call.
  std::string output() {
    std::fflush(file_);
    const std::string all(text_, size_);
    const std::string fresh = all.substr(read_);
    read_ = all.size();
    return fresh;
  }

  double time_ = 100;

 private:
  std::FILE* file_ = nullptr;
  char* text_ = nullptr;
  std::size_t size_ = 0, read_ = 0;
  std::optional<ProgressBar> bar_;
};

long columns(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

std::string without_control(std::string text) {
  EXPECT_TRUE(text.starts_with("\r"));
  const std::size_t clear = text.find("\x1b[K");
  EXPECT_NE(clear, std::string::npos);
  return text.substr(1, clear - 1);
}

TEST_F(ProgressBarTest, TerminalShowsPercentageBarStatusAndTimeLeft) {
  ProgressBar& bar = make({.label = "train", .total = 2000, .terminal = true, .width = 60});
  bar.update(0, "loss 9.10");
  EXPECT_EQ(output(), "\rtrain   0% ▕                      ▏ loss 9.10  ? left\x1b[K");
  time_ += 10;
  bar.update(500, "loss 4.20");
  EXPECT_EQ(output(), "\rtrain  25% ▕█████▌                ▏ loss 4.20  30s left\x1b[K");
  time_ += 32;
  bar.finish("loss 3.00");
  EXPECT_EQ(output(), "\rtrain 100% ▕██████████████████████▏ loss 3.00  42s\x1b[K\n");
}

TEST_F(ProgressBarTest, TerminalIsRedrawnAtMostTenTimesASecond) {
  ProgressBar& bar = make({.label = "a", .total = 1000, .terminal = true});
  int pictures = 0;
  for (int i = 0; i < 1000; ++i) {
    time_ += 0.001;
    bar.update(i, "x");
    if (!output().empty()) ++pictures;
  }
  EXPECT_GE(pictures, 9);
  EXPECT_LE(pictures, 11);
}

TEST_F(ProgressBarTest, PictureFitsEveryWidth) {
  for (const int width : {0, 1, 8, 20, 40, 60, 80, 200}) {
    for (const char* status :
         {"", "loss 4.2312  lr 3.0e-04  grad 1.23  45.1k tok/s  61% peak", "größer ▕▏ ä"}) {
      ProgressBar& bar = make({.label = "data", .total = 7, .terminal = true, .width = width});
      output();  // the end of the bar before
      time_ += 3;
      bar.update(3, status);
      const std::string picture = without_control(output());
      EXPECT_LE(columns(picture), std::max(0, width - 1)) << picture;
    }
  }
}

TEST_F(ProgressBarTest, LinesStayAboveTheBar) {
  ProgressBar& bar = make({.label = "a", .total = 4, .terminal = true, .width = 40});
  bar.print_line("before");
  EXPECT_EQ(output(), "before\n");
  bar.update(2, "x");
  const std::string picture = output();
  bar.print_line("saved step 2");
  EXPECT_EQ(output(), "\r\x1b[Ksaved step 2\n" + picture);
}

TEST_F(ProgressBarTest, ElsewhereItWritesPlainLinesNowAndThen) {
  ProgressBar& bar = make({.label = "data", .total = 200, .line_seconds = 10});
  bar.update(1, "1 MB");
  time_ += 9;
  bar.update(20, "2 MB");
  EXPECT_EQ(output(), "");
  time_ += 1;
  bar.update(50, "5 MB");
  EXPECT_EQ(output(), "data 25%  5 MB  30s left\n");
  bar.print_line("halfway");
  EXPECT_EQ(output(), "halfway\n");
  time_ += 62;
  bar.finish("20 MB");
  EXPECT_EQ(output(), "data 100%  20 MB  1m12s\n");
}

TEST_F(ProgressBarTest, PrintLineAloneSpeaksWhenLinesAreOff) {
  ProgressBar& bar = make({.total = 10, .line_seconds = std::numeric_limits<double>::infinity()});
  time_ += 1e6;
  bar.update(5, "x");
  EXPECT_EQ(output(), "");
}

TEST_F(ProgressBarTest, ResumedJobDoesNotCountWhatWasDoneBefore) {
  ProgressBar& bar = make({.label = "t", .total = 100, .start = 50, .line_seconds = 0});
  time_ += 10;
  bar.update(60, "x");
  EXPECT_EQ(output(), "t 60%  x  40s left\n");
}

TEST_F(ProgressBarTest, ShowsTheTimeLeftThatTheCallerKnows) {
  ProgressBar& bar = make({.label = "train", .total = 100, .terminal = true});
  time_ += 500;  // of setting up
  bar.update(64, "loss 3.1", 4.0);
  EXPECT_NE(output().find("4s left"), std::string::npos);
}

TEST_F(ProgressBarTest, UnknownTotalShowsTheStatusOnly) {
  ProgressBar& bar = make({.label = "read", .terminal = true, .width = 30});
  bar.update(7, "7 documents");
  EXPECT_EQ(output(), "\rread  7 documents\x1b[K");
}

// A full disk under the log ends no run.
TEST_F(ProgressBarTest, LosesWhatCannotBeWritten) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  std::setbuf(full, nullptr);
  {
    ProgressBar bar(full, {.label = "train", .total = 10, .terminal = true});
    bar.update(1, "status");
    bar.print_line("line");
    bar.finish("end");
  }
  EXPECT_NE(std::ferror(full), 0);
  std::fclose(full);
}

TEST_F(ProgressBarTest, AnInterruptedBarLeavesAFreshLine) {
  make({.label = "a", .total = 4, .terminal = true}).update(1, "x");
  output();
  make({});  // destroys the first
  EXPECT_EQ(output(), "\n");
}

}  // namespace
}  // namespace tessera
