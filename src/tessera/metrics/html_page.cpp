#include "tessera/metrics/html_page.h"

#include <fmt/format.h>

#include "tessera/metrics/markup.h"

namespace tessera {
namespace {

constexpr std::string_view kPageStyle = R"(
:root{color-scheme:light dark;--paper:#f3f4f7;--card:#fbfbfd;--ink:#1b2130;--soft:#6b7280;--line:#e2e5ec;
--good:#0d7f56;--warn:#b45309}
@media (prefers-color-scheme:dark){:root{--paper:#0e1117;--card:#161a22;--ink:#eceff5;--soft:#9aa3b2;--line:#2a303c;
--good:#3ccf91;--warn:#f5b14c}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1400px;padding:24px;background:var(--paper);color:var(--ink);
font:15px/1.45 Inter,'Helvetica Neue',Helvetica,Arial,sans-serif}
h1{font-size:24px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:17px;margin:32px 0 10px}
p{margin:4px 0;color:var(--soft)}.good{color:var(--good)}.warn{color:var(--warn)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:10px;margin-top:18px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 14px}
.tile div{color:var(--soft);font-size:13px}.tile b{font-size:22px;font-weight:600;font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,560px),1fr));gap:14px}
.scroll{overflow-x:auto}
svg{display:block;width:100%;height:auto;border:1px solid var(--line);border-radius:10px}
table{border-collapse:collapse;background:var(--card);border:1px solid var(--line);font-variant-numeric:tabular-nums}
th,td{padding:5px 14px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{color:var(--soft);font-weight:500}
tr.total td{font-weight:600;border-top:2px solid var(--line)}
pre{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px;overflow-x:auto;
font:13px/1.5 ui-monospace,Menlo,Consolas,monospace}
@media print{body{background:#fff}.charts{grid-template-columns:1fr 1fr}}
)";

std::string cells(const std::vector<std::string>& texts, std::string_view element) {
  std::string html;
  for (const std::string& text : texts) html += fmt::format("<{0}>{1}</{0}>", element, escaped_markup(text));
  return html;
}

}  // namespace

std::string html_page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escaped_markup(title), kPageStyle, body);
}

std::string html_section(std::string_view heading, std::string_view content) {
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", escaped_markup(heading), content);
}

std::string html_tiles(std::span<const NumberTile> tiles) {
  std::string html = "<div class=\"tiles\">\n";
  for (const NumberTile& tile : tiles) {
    html += fmt::format("<div class=\"tile\"><div>{}</div><b>{}</b><div>{}</div></div>\n",
                        escaped_markup(tile.label), escaped_markup(tile.value), escaped_markup(tile.note));
  }
  return html + "</div>\n";
}

std::string html_table(const HtmlTable& table) {
  std::string html = "<div class=\"scroll\"><table>\n";
  if (!table.header.empty()) html += fmt::format("<tr>{}</tr>\n", cells(table.header, "th"));
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const bool total = table.last_is_total && i + 1 == table.rows.size();
    html += fmt::format("<tr{}>{}</tr>\n", total ? " class=\"total\"" : "", cells(table.rows[i], "td"));
  }
  return html + "</table></div>\n";
}

}  // namespace tessera
