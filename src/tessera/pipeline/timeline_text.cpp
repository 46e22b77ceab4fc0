#include <algorithm>
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/pipeline/timeline.h"
#include "tessera/pipeline/timeline_block.h"

namespace tessera {

namespace {

constexpr int kMinColumns = 24;  // of a row's picture, whatever the width asked for

using Rows = std::vector<std::vector<TimelineBlock>>;

// Columns per unit of time, so that the names of all but unusually short blocks fit.
double column_scale(const Rows& rows) {
  std::size_t longest_name = 0;
  double shortest = 0, total = 0, count = 0;
  for (const auto& row : rows) {
    for (const TimelineBlock& block : row) {
      const double duration = block.span.end - block.span.begin;
      if (duration <= 0) continue;
      longest_name = std::max(longest_name, block.name.size());
      shortest = count == 0 ? duration : std::min(shortest, duration);
      total += duration;
      ++count;
    }
  }
  if (count == 0) return 0;
  constexpr double kUnusuallyShort = 0.25;  // of the mean: a tiny stage must not stretch all others
  return static_cast<double>(longest_name + 1) / std::max(shortest, kUnusuallyShort * total / count);
}

// The columns that are drawn: all, or a head and a tail with one column between them for the '~'.
struct Window {
  std::int64_t num_columns = 0;
  std::int64_t head = 0;
  std::int64_t tail = 0;  // the first column drawn after the cut

  Window(std::int64_t columns, std::int64_t room) : num_columns(columns), head(columns), tail(columns) {
    if (columns <= room) return;
    head = (room - 1) / 2;
    tail = columns - (room - 1 - head);
  }
  bool is_cut() const { return head < num_columns; }
  bool shows(std::int64_t from, std::int64_t to) const { return to <= head || from >= tail; }
  std::int64_t width() const { return is_cut() ? head + 1 + (num_columns - tail) : num_columns; }
  std::size_t position(std::int64_t column) const {
    return static_cast<std::size_t>(column < head ? column : column - tail + head + 1);
  }
};

std::string draw_row(const std::vector<TimelineBlock>& blocks, const Window& window, double scale) {
  std::string row(static_cast<std::size_t>(window.width()), '.');
  for (const TimelineBlock& block : blocks) {
    const std::int64_t begin = std::llround(block.span.begin * scale);
    const std::int64_t end = std::llround(block.span.end * scale);
    const std::int64_t name_end = begin + 1 + static_cast<std::int64_t>(block.name.size());
    const bool named = name_end <= end && window.shows(begin, name_end);
    for (std::int64_t column = begin; column < end; ++column) {
      if (!window.shows(column, column + 1)) {
        column = window.tail - 1;  // blocks of a long step are mostly hidden
        continue;
      }
      char c = named ? ' ' : '#';
      if (column == begin)
        c = '|';
      else if (named && column < name_end)
        c = block.name[static_cast<std::size_t>(column - begin - 1)];
      row[window.position(column)] = c;
    }
  }
  if (window.is_cut()) row[static_cast<std::size_t>(window.head)] = '~';
  return row;
}

std::string heading(const Schedule& schedule, const ScheduleTiming& timing, const Window& window,
                    double scale) {
  const bool chunked = schedule.num_chunks > 1;
  const std::string chunks = chunked ? fmt::format(", {} chunks each", schedule.num_chunks) : "";
  std::string text =
      fmt::format("{}: {} rank{}{}, {} micro-batch{}; makespan {:.4g}, the ranks wait {:.1f} % of it\n",
                  schedule_name(schedule.kind), schedule.num_stages, schedule.num_stages == 1 ? "" : "s",
                  chunks, schedule.num_micro_batches, schedule.num_micro_batches == 1 ? "" : "es",
                  timing.makespan, 100 * timing.bubble_fraction());
  text += fmt::format("F3 and B3 are forward and backward of micro-batch 3{}; dots are waiting",
                      chunked ? ", F3:1 is in chunk 1" : "");
  if (scale > 0) text += fmt::format("; a column is {:.3g}", 1 / scale);
  text += '\n';
  if (window.is_cut()) {
    text += fmt::format("~ leaves out the time from {:.4g} to {:.4g}\n",
                        static_cast<double>(window.head) / scale, static_cast<double>(window.tail) / scale);
  }
  return text;
}

}  // namespace

std::string timeline_text(const Schedule& schedule, const ScheduleTiming& timing, int max_width) {
  TS_ASSERT(timing.spans.size() == schedule.ranks.size());
  Rows rows;
  for (int rank = 0; rank < schedule.num_stages; ++rank)
    rows.push_back(timeline_blocks(schedule, timing, rank));
  const double scale = column_scale(rows);
  const std::size_t digits = std::to_string(schedule.num_stages - 1).size();
  const auto frame = static_cast<std::int64_t>(std::string_view("rank    100.0 %").size() + digits - 1);
  const Window window(std::llround(timing.makespan * scale),
                      std::max<std::int64_t>(kMinColumns, max_width - frame));
  std::string text = heading(schedule, timing, window, scale);
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const double waiting = timing.makespan > 0 ? 1 - timing.busy[rank] / timing.makespan : 0;
    text += fmt::format("rank {:{}} {} {:5.1f} %\n", rank, digits, draw_row(rows[rank], window, scale),
                        100 * waiting);
  }
  return text;
}

}  // namespace tessera
