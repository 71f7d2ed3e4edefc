// A strict reader of small XML documents for tests of what the program draws.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace zt::test {

struct XmlElement {
  std::string tag;
  std::map<std::string, std::string> attributes;
  std::string text;                               // directly inside, references replaced
  int parent = -1;                                // index in the document
  std::string at(const std::string& name) const;  // "" where it has no such attribute
  double number(const std::string& name) const;   // of its leading number; 0 without
};

// All elements in the order of their start tags. Throws std::runtime_error with the place for whatever XML 1.0 forbids
// in the subset without declarations, comments, CDATA and processing instructions; ids that occur twice, too.
std::vector<XmlElement> parse_xml(std::string_view text);

// Those of one tag (any: "") whose class list has `word` (any: "").
std::vector<XmlElement> elements(const std::vector<XmlElement>& document, const std::string& tag,
                                 const std::string& word = "");

}  // namespace zt::test
