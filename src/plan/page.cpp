#include "plan/page.h"

#include <algorithm>

#include "base/file.h"
#include "base/text.h"
#include "plan/drawing.h"

namespace zt::plan {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ground:#fff;--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;--card:#f6f8fa;
  --good:#1a7f37;--bad:#c1121f}
@media screen and (prefers-color-scheme:dark){:root{--ground:#16191d;--ink:#e6edf3;--soft:#9aa4af;--line:#3d444d;
  --card:#1f242a;--good:#4ac26b;--bad:#ff7b72}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
  font:16px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}
main,header,footer{max-width:1240px;margin:0 auto;padding:0 20px}
header{padding-top:24px}footer{padding-top:8px;padding-bottom:32px;color:var(--soft);font-size:14px}
h1{font-size:26px;line-height:1.25;margin:0}h2{font-size:20px;margin:36px 0 8px}h3{font-size:16px;margin:20px 0 6px}
h1,h2,h3,p,dd{overflow-wrap:anywhere}
p{margin:6px 0;max-width:75em}.soft{color:var(--soft)}
.verdict{margin:16px 0;padding:10px 14px;border:1px solid var(--line);border-left:6px solid var(--good);
  border-radius:6px;background:var(--card);font-weight:600}
.verdict.bad{border-left-color:var(--bad)}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;margin:16px 0}
dl div{padding:8px 12px;border:1px solid var(--line);border-radius:6px}
dt{color:var(--soft);font-size:13px}dd{margin:0;font-size:18px;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}td{overflow-wrap:break-word;max-width:28em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:15px}
th,td{padding:4px 14px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--soft);white-space:nowrap}
.number{text-align:right;white-space:nowrap}
.total td{border-top:2px solid var(--ink);font-weight:600}
figure{margin:12px 0}figure svg{display:block;width:100%}figcaption{color:var(--soft);font-size:14px;margin-top:6px}
@media (max-width:640px){main,header,footer{padding-left:12px;padding-right:12px}table{font-size:14px}
  th,td{padding-right:10px}}
@media print{body{font-size:11pt}main,header,footer{max-width:none;padding-left:0;padding-right:0}
  .scroll{overflow:visible}tr,figure,.verdict,dl div{break-inside:avoid}h2,h3{break-after:avoid}
  *{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
)";

std::string element(const char* tag, const std::string& text, const std::string& attributes = "") {
  return text.empty() ? "" : cat("<", tag, attributes, ">", xml_text(text), "</", tag, ">\n");
}

const std::string& cell(const std::vector<std::string>& row, std::size_t column) {
  static const std::string none;
  return column < row.size() ? row[column] : none;
}

bool numeric(const std::string& text) {
  const std::size_t at = text.find_first_not_of("+-~<>≈ ");
  return at != std::string::npos && text[at] >= '0' && text[at] <= '9';
}

// Whether all cells that say something begin with a number.
bool numbers(const PageTable& table, std::size_t column) {
  bool any = false;
  for (const auto& row : table.rows) {
    const std::string& text = cell(row, column);
    if (text.empty()) continue;
    if (!numeric(text)) return false;
    any = true;
  }
  return any;
}

std::string row_html(const PageTable& table, const std::vector<std::string>& row,
                     const std::vector<bool>& number, const char* tag, const char* attributes) {
  std::string out = cat("<tr", attributes, ">");
  const std::string scope = std::string(tag) == "th" ? " scope=\"col\"" : "";
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    out += cat("<", tag, scope, number[c] ? " class=\"number\"" : "", ">", xml_text(cell(row, c)), "</", tag,
               ">");
  return out + "</tr>\n";
}

std::string table_html(const PageTable& table) {
  std::string out = element("h3", table.title);
  if (!table.rows.empty()) {
    std::vector<bool> number;
    for (std::size_t c = 0; c < table.columns.size(); ++c) number.push_back(numbers(table, c));
    // A place that scrolls must be within reach of the keyboard.
    out += "<div class=\"scroll\" tabindex=\"0\" role=\"group\"" +
           (table.title.empty() ? "" : cat(" aria-label=\"", xml_text(table.title), "\"")) +
           "><table>\n<thead>" + row_html(table, table.columns, number, "th", "") + "</thead>\n<tbody>\n";
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      const bool total = table.last_is_total && r + 1 == table.rows.size();
      out += row_html(table, table.rows[r], number, "td", total ? " class=\"total\"" : "");
    }
    out += "</tbody>\n</table></div>\n";
  }
  return out + element("p", table.note, " class=\"soft\"");
}

std::string section_html(const PageSection& section) {
  std::string out = "<section>\n" + element("h2", section.title);
  for (const std::string& text : section.paragraphs) out += element("p", text);
  out += section.html;
  for (const PageTable& table : section.tables) out += table_html(table);
  if (!section.svg.empty())
    out += "<figure>\n" + section.svg + element("figcaption", section.caption) + "</figure>\n";
  return out + "</section>\n";
}

std::string facts_html(const std::vector<PageFact>& facts) {
  if (facts.empty()) return "";
  std::string out = "<dl>\n";
  for (const PageFact& fact : facts)
    out += cat("<div><dt>", xml_text(fact.name), "</dt><dd>", xml_text(fact.value), "</dd></div>\n");
  return out + "</dl>\n";
}

}  // namespace

std::string plan_page(const PlanPage& page) {
  // Only the script with this word may run, so that no text of a recipe or a log can be one.
  const std::string nonce = digest_of(page.script);
  std::string out = cat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                        "style-src 'unsafe-inline'",
                        page.script.empty() ? "" : cat("; script-src 'nonce-", nonce, "'"), "\">\n",
                        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
                        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>", xml_text(page.title),
                        "</title>\n<style>", kStyle, page.style, "</style>\n</head>\n<body>\n<header>\n");
  out += element("h1", page.title) + element("p", page.subtitle, " class=\"soft\"");
  if (!page.verdict.empty())
    out += element("p", (page.good ? "✓ " : "✗ ") + page.verdict,
                   page.good ? " class=\"verdict good\"" : " class=\"verdict bad\"");
  out += "</header>\n<main>\n" + facts_html(page.facts);
  for (const PageSection& section : page.sections) out += section_html(section);
  out += "</main>\n" + element("footer", page.footer);
  if (!page.script.empty()) out += cat("<script nonce=\"", nonce, "\">", page.script, "</script>\n");
  return out + "</body>\n</html>\n";
}

}  // namespace zt::plan
