#include <iterator>

#include "tessera/base/error.h"
#include "tessera/pipeline/timeline.h"
#include "tessera/pipeline/timeline_block.h"

namespace tessera {

std::string timeline_trace(const Schedule& schedule, const ScheduleTiming& timing, double seconds) {
  TS_ASSERT(timing.spans.size() == schedule.ranks.size());
  const double microseconds = 1e6 * seconds;  // the format's unit
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  auto out = std::back_inserter(json);
  for (int rank = 0; rank < schedule.num_stages; ++rank) {
    fmt::format_to(out,
                   "{}\n{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":\"pipeline "
                   "rank {}\"}}}}",
                   rank == 0 ? "" : ",", rank, rank);
    fmt::format_to(
        out, ",\n{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{}}}}}",
        rank, rank);
    for (const TimelineBlock& block : timeline_blocks(schedule, timing, rank)) {
      const Instruction& i = block.instruction;
      fmt::format_to(out,
                     ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":0,\"name\":\"{}\",\"cat\":\"{}\",\"ts\":{:.3f},"
                     "\"dur\":{:.3f},"
                     "\"args\":{{\"stage\":{},\"chunk\":{},\"micro_batch\":{},\"slot\":{}}}}}",
                     rank, block.name, instruction_name(i.kind), block.span.begin * microseconds,
                     (block.span.end - block.span.begin) * microseconds, schedule.global_stage(rank, i.chunk),
                     i.chunk, i.micro_batch, i.slot);
    }
  }
  return json + "\n]}\n";
}

}  // namespace tessera
