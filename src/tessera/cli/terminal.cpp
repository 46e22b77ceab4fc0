#include "tessera/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "tessera/base/error.h"
#include "tessera/base/printable.h"

namespace tessera {

bool is_terminal(std::FILE* file) {
  return ::isatty(::fileno(file)) != 0;
}

int terminal_width(std::FILE* file) {
  winsize size{};
  const bool known = ::ioctl(::fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void print_to_stderr(const std::string& line) {
  fmt::print(stderr, "{}\n", printable(line));
}

ProgressOptions progress_options(std::string label, std::int64_t total) {
  ProgressOptions options;
  options.label = std::move(label);
  options.total = total;
  options.terminal = is_terminal(stderr);
  options.width = terminal_width(stderr);
  return options;
}

}  // namespace tessera
