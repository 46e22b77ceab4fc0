// Text inside HTML and SVG. Used by the curves and by the report of a run.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// With &, <, > and " written as entities: safe in text and in quoted attributes.
std::string escaped_markup(std::string_view text);

}  // namespace tessera
