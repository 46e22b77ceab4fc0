#include "tessera/metrics/html_page.h"

#include <gtest/gtest.h>

#include "tessera/metrics/markup.h"

namespace tessera {
namespace {

TEST(HtmlPage, EscapesTextsAndKeepsMarkup) {
  EXPECT_EQ(escaped_markup("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
  const std::string page = html_page("a<b", html_section("c&d", "<p>text</p>"));
  EXPECT_NE(page.find("<title>a&lt;b</title>"), std::string::npos);
  EXPECT_NE(page.find("<h2>c&amp;d</h2>\n<p>text</p>"), std::string::npos);
}

TEST(HtmlPage, NeedsNothingFromElsewhere) {
  const std::string page = html_page("t", html_tiles(std::vector<NumberTile>{{"loss", "<1", "note"}}));
  for (const char* outside : {"http:", "https:", "<script", "<link", "@import", "url("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_NE(page.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(page.find("<b>&lt;1</b>"), std::string::npos);
}

TEST(HtmlPage, TablesSetTheirTotalApart) {
  HtmlTable table{{"what", "bytes"}, {{"weights", "1"}, {"total", "1"}}, true};
  EXPECT_EQ(html_table(table),
            "<div class=\"scroll\"><table>\n<tr><th>what</th><th>bytes</th></tr>\n"
            "<tr><td>weights</td><td>1</td></tr>\n<tr class=\"total\"><td>total</td><td>1</td></tr>\n"
            "</table></div>\n");
}

}  // namespace
}  // namespace tessera
