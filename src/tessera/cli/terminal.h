// What the program's terminal is, a progress bar made for it, and lines beside the results.
#pragma once

#include <memory>
#include <string>

#include "tessera/metrics/progress_bar.h"

namespace tessera {

bool is_terminal(std::FILE* file);
int terminal_width(std::FILE* file);

void print_to_stderr(const std::string& line);

ProgressOptions progress_options(std::string label, std::int64_t total);  // for a bar on stderr

}  // namespace tessera
