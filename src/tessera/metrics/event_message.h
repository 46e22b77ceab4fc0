// The messages of a TensorBoard event file, as bytes of protocol buffers: the few fields that are written
// here do not need a library. Framed and appended by EventFile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

struct TaggedScalar {
  std::string tag;
  double value = 0;  // stored as a float, as TensorBoard's scalars are
};

std::string version_event(double wall_time);  // the first of every file
// Tells readers to forget what earlier files say of `step` and all steps after it.
std::string session_start_event(double wall_time, std::int64_t step);
std::string scalars_event(double wall_time, std::int64_t step, std::span<const TaggedScalar> scalars);
std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view markdown);

}  // namespace tessera
