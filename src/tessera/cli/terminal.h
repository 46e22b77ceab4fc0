// What the program's terminal is, and a progress bar made for it.
#pragma once

#include <memory>
#include <string>

#include "tessera/metrics/progress_bar.h"

namespace tessera {

bool is_terminal(std::FILE* file);
int terminal_width(std::FILE* file);

ProgressOptions progress_options(std::string label, std::int64_t total);  // for a bar on stderr

}  // namespace tessera
