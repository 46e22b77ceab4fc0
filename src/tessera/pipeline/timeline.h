// Timelines: a timed schedule as a picture, one row per rank and time from left to right. As text for a
// terminal or a log, as a trace for chrome://tracing or Perfetto, and as an SVG. Made by `tessera plan` and
// by the report of a run.
//
//   1f1b: 2 ranks, 2 micro-batches; makespan 9, the ranks wait 33.3 % of it
//   F3 and B3 are forward and backward of micro-batch 3; dots are waiting; a column is 0.333
//   rank 0 |F0|F1......|B0   ...|B1     33.3 %
//   rank 1 ...|F0|B0   |F1|B1   ......  33.3 %
#pragma once

#include <string>

#include "tessera/pipeline/schedule.h"
#include "tessera/pipeline/schedule_timing.h"

namespace tessera {

inline constexpr int kTimelineWidth = 120;

// A row that would be longer than `max_width` shows the beginning and the end, where the pipeline fills and
// drains; a '~' stands for the middle and a third line says which times it leaves out. A block too narrow for
// its name, or cut by the '~', is drawn as '#'.
std::string timeline_text(const Schedule& schedule, const ScheduleTiming& timing,
                          int max_width = kTimelineWidth);

// JSON in Chrome's trace event format: a process per rank, an event per forward and backward with its chunk,
// micro-batch, slot and global stage. `seconds` that one unit of the timing's costs is.
std::string timeline_trace(const Schedule& schedule, const ScheduleTiming& timing, double seconds = 1);

// A picture for a page: blocks for forwards and backwards, gaps for waiting, time in percent of the whole.
std::string timeline_svg(const Schedule& schedule, const ScheduleTiming& timing);

}  // namespace tessera
