#include "support/xml.h"

#include <cstdlib>
#include <set>
#include <stdexcept>

namespace zt::test {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<XmlElement> document() {
    element(-1);
    spaces();
    if (at_ != text_.size()) fail("text behind the root element");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + " at byte " + std::to_string(at_) + ": " +
                             std::string(text_.substr(at_, 40)));
  }
  bool next(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  void need(std::string_view what) {
    if (!next(what)) fail("'" + std::string(what) + "' is missing");
  }
  char here() const {
    if (at_ >= text_.size()) fail("the end");
    return text_[at_];
  }
  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  std::string name() {
    const std::size_t from = at_;
    const auto fits = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
             c == ':' || c == '_';
    };
    while (at_ < text_.size() && fits(text_[at_])) ++at_;
    if (at_ == from || (text_[from] >= '0' && text_[from] <= '9') || text_[from] == '-') fail("no name");
    return std::string(text_.substr(from, at_ - from));
  }
  // One character or reference.
  void character(std::string* to) {
    const char c = here();
    if (c != '&') {
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r')
        fail("a forbidden character");
      *to += c;
      ++at_;
      return;
    }
    for (const auto& [reference, meaning] :
         {std::pair{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}})
      if (next(reference)) {
        *to += meaning;
        return;
      }
    fail("an unknown reference");
  }
  void attribute(XmlElement* element) {
    const std::string key = name();
    need("=\"");
    std::string value;
    while (here() != '"') {
      if (here() == '<') fail("'<' inside an attribute");
      character(&value);
    }
    ++at_;
    if (key == "id" && !ids_.insert(value).second) fail("the id " + value + " again");
    if (!element->attributes.emplace(key, value).second) fail("the attribute " + key + " again");
  }
  void element(int parent) {
    need("<");
    XmlElement start;
    start.tag = name();
    start.parent = parent;
    for (;;) {
      const std::size_t before = at_;
      spaces();
      if (here() == '>' || here() == '/') break;
      if (at_ == before) fail("no space before an attribute");
      attribute(&start);
    }
    const std::size_t index = out_.size();
    out_.push_back(start);
    if (next("/>")) return;
    need(">");
    for (;;) {
      if (next("</")) break;
      if (here() == '<')
        element(int(index));
      else
        character(&out_[index].text);
    }
    if (name() != start.tag) fail("another end tag than " + start.tag);
    need(">");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<XmlElement> out_;
  std::set<std::string> ids_;
};

}  // namespace

std::string XmlElement::at(const std::string& name) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? "" : found->second;
}

double XmlElement::number(const std::string& name) const { return std::strtod(at(name).c_str(), nullptr); }

std::vector<XmlElement> parse_xml(std::string_view text) { return Reader(text).document(); }

std::vector<XmlElement> elements(const std::vector<XmlElement>& document, const std::string& tag,
                                 const std::string& word) {
  std::vector<XmlElement> out;
  for (const XmlElement& e : document)
    if ((tag.empty() || e.tag == tag) &&
        (word.empty() || (" " + e.at("class") + " ").find(" " + word + " ") != std::string::npos))
      out.push_back(e);
  return out;
}

}  // namespace zt::test
