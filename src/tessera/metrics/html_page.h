// HTML for one self-contained page: no script, no font, no picture from elsewhere; readable in light and
// dark, on paper and on a telephone. Put together by the report of a run.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct NumberTile {
  std::string label;  // "final loss"
  std::string value;  // "2.8412"
  std::string note;   // "nats per token", or empty
};

// All texts are taken as plain text and escaped, except `body` and `content`, which are HTML.
std::string html_page(std::string_view title, std::string_view body);
std::string html_section(std::string_view heading, std::string_view content);
std::string html_tiles(std::span<const NumberTile> tiles);

// The first column has names, the others numbers; a last row can be set apart as the sum of the others.
struct HtmlTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  bool last_is_total = false;
};
std::string html_table(const HtmlTable& table);

}  // namespace tessera
