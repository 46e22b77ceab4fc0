// Durations, counts and bytes as people write them: "1m12s", "45.1k", "2.6 GB".
// Used by the progress bar, the step line and the tables of the commands.
#pragma once

#include <string>

namespace tessera {

std::string human_duration(double seconds);  // "12s", "1m12s", "3h05m", "2d04h"; "?" when not finite
std::string human_count(double value);       // "812", "45.1k", "7.2M", "1.3G"
std::string human_bytes(double bytes);       // "812 B", "512 MB", "2.6 GB": powers of 1000

}  // namespace tessera
