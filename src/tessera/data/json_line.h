// json_line_text: the document in one line of a JSON lines file.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// The string under `key` of the object in `line`. NaN, Infinity and -Infinity, which Python's json.dumps
// writes, are read as null. Throws Error saying what was found; the caller adds file
// and line number.
std::string json_line_text(std::string_view line, const std::string& key);

}  // namespace tessera
