// nearest_name: the valid name a mistyped one was probably meant to be, for "did you mean" in refusals.
// Used by the config schema for keys and enum values and by the command line for flags.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera {

// Empty when no candidate is close enough to be a help. A dotted name is also matched by its last word,
// so that "train.lr" finds "optimizer.lr".
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

// "; did you mean 'NAME'?", or nothing.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace tessera
