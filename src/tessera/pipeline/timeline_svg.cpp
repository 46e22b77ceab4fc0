#include "tessera/base/error.h"
#include "tessera/pipeline/timeline.h"
#include "tessera/pipeline/timeline_block.h"

namespace tessera {

namespace {

constexpr double kWidth = 960, kLeft = 84, kRight = 84, kTop = 34, kRow = 30, kBlock = 22, kBottom = 44;

// Light and dark; the second chunk of a rank is paler than the first, and so on.
constexpr std::string_view kStyle = R"(<style>
.timeline-paper{fill:#fbfbfd}.timeline-text{fill:#6b7280}.timeline-row{fill:#eceef3}.timeline-tick{stroke:#9aa1b1}
.timeline-forward{fill:#2563eb}.timeline-backward{fill:#f97316}.timeline-name{fill:#fff}
@media (prefers-color-scheme:dark){
.timeline-paper{fill:#161a22}.timeline-text{fill:#9aa3b2}.timeline-row{fill:#222732}.timeline-tick{stroke:#566073}
.timeline-forward{fill:#4d84ee}.timeline-backward{fill:#e0772f}}
</style>
)";

class TimelinePicture {
 public:
  TimelinePicture(const Schedule& schedule, const ScheduleTiming& timing)
      : schedule_(schedule), timing_(timing), bottom_(kTop + kRow * schedule.num_stages) {}

  std::string svg() const {
    const double height = bottom_ + kBottom;
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif\" font-size=\"12\">\n{2}"
        "<rect width=\"{0}\" height=\"{1}\" rx=\"10\" class=\"timeline-paper\"/>\n",
        kWidth, height, kStyle);
    text += label(kWidth - kRight + 12, kTop - 12, "start", "waits");
    for (int rank = 0; rank < schedule_.num_stages; ++rank) text += row(rank);
    return text + axis() + "</svg>\n";
  }

 private:
  double x(double time) const {
    const double share = timing_.makespan > 0 ? time / timing_.makespan : 0;
    return kLeft + share * (kWidth - kLeft - kRight);
  }

  static std::string label(double x, double y, const char* anchor, const std::string& text) {
    return fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"timeline-text\" text-anchor=\"{}\">{}</text>\n", x, y,
        anchor, text);
  }

  std::string row(int rank) const {
    const double top = kTop + kRow * rank, middle = top + kBlock / 2 + 4;
    const double busy = timing_.busy[static_cast<std::size_t>(rank)];
    const double waits = timing_.makespan > 0 ? 1 - busy / timing_.makespan : 0;
    std::string text = label(kLeft - 12, middle, "end", fmt::format("rank {}", rank));
    text += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"timeline-row\"/>\n",
                        kLeft, top, kWidth - kLeft - kRight, kBlock);
    for (const TimelineBlock& one : timeline_blocks(schedule_, timing_, rank)) text += block(one, top);
    return text + label(kWidth - kRight + 12, middle, "start", fmt::format("{:.1f} %", 100 * waits));
  }

  std::string block(const TimelineBlock& one, double top) const {
    const double begin = x(one.span.begin), width = x(one.span.end) - begin;
    const double gap = std::min(1.0, width / 4);  // between neighbours
    const bool forward = one.instruction.kind == Instruction::forward;
    std::string text = fmt::format(
        "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" rx=\"2\" class=\"timeline-{}\" "
        "opacity=\"{:.2f}\"><title>{}</title></rect>\n",
        begin, top, width - gap, kBlock, forward ? "forward" : "backward",
        1 - 0.4 * one.instruction.chunk / schedule_.num_chunks, one.name);
    // The number alone where the name has no room: the colour says the rest.
    const auto fits = [&](const std::string& name) {
      return width > 7.5 * static_cast<double>(name.size()) + 3;
    };
    const std::string number = fmt::format("{}", one.instruction.micro_batch);
    if (!fits(one.name) && !fits(number)) return text;
    return text +
           fmt::format(
               "<text x=\"{:.1f}\" y=\"{}\" class=\"timeline-name\" text-anchor=\"middle\">{}</text>\n",
               begin + width / 2, top + kBlock / 2 + 4, fits(one.name) ? one.name : number);
  }

  std::string axis() const {
    std::string text;
    for (int percent = 0; percent <= 100; percent += 20) {
      const double at = x(timing_.makespan * percent / 100);
      text +=
          fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" class=\"timeline-tick\"/>\n",
                      at, bottom_ - 4, bottom_ + 2);
      text += label(at, bottom_ + 18, "middle", fmt::format("{}", percent));
    }
    return text + label((kLeft + kWidth - kRight) / 2, bottom_ + 36, "middle",
                        "% of the time from the first forward to the last backward, by flops");
  }

  const Schedule& schedule_;
  const ScheduleTiming& timing_;
  const double bottom_;
};

}  // namespace

std::string timeline_svg(const Schedule& schedule, const ScheduleTiming& timing) {
  TS_ASSERT(timing.spans.size() == schedule.ranks.size());
  return TimelinePicture(schedule, timing).svg();
}

}  // namespace tessera
