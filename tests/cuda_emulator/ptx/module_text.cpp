#include "module_text.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace zt::emulator::ptx {

namespace {

[[noreturn]] void refuse(const std::string& what, int line) {
  throw Error(Blame::bug, cat("PTX line ", line, ": ", what));
}

// Splits the text into statements. A statement ends at ';' or at a brace that opens or closes a body; a label
// ends at ':'. Comments go; `.loc` and `.file` end with their line.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  // The next statement, "{", "}" or a label with its ':'. False at the end or where the debug sections start.
  bool next(Statement* out) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] == '\0') return false;
    out->line = line_;
    if (text_[at_] == '.' && begins(".section")) return false;
    if (begins(".loc ") || begins(".loc\t") || begins(".file") || begins(".version") || begins(".target") ||
        begins(".address_size")) {
      out->text = until_line_end();
      return true;
    }
    if (text_[at_] == '{' || text_[at_] == '}') {
      out->text = std::string(1, text_[at_++]);
      return true;
    }
    out->text = until_terminator();
    return true;
  }

 private:
  bool begins(std::string_view word) const { return text_.substr(at_, word.size()) == word; }

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\n') ++line_;
      if (begins("//")) {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (begins("/*")) {
        while (at_ < text_.size() && !begins("*/")) line_ += text_[at_++] == '\n';
        at_ += 2;
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) || text_[at_] == ';') {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string until_line_end() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string line(text_.substr(at_, end - at_));
    at_ = end;
    return line;
  }

  // Braces inside a statement belong to operands or initialisers when something other than a directive's
  // header stands before them: `ld.v2 {a, b}` and `= {1, 2}` go on; `.entry f (...) {` ends before the brace.
  std::string until_terminator() {
    std::string out;
    int operand_braces = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (begins("//")) {
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
        continue;
      }
      if (c == ';') break;
      if (c == '{' && operand_braces == 0 && header(out)) return out;
      operand_braces += c == '{';
      if (c == '}') {
        if (operand_braces == 0) return out;
        --operand_braces;
      }
      out += std::isspace(static_cast<unsigned char>(c)) ? ' ' : c;
      if (c == ':' && operand_braces == 0 && is_label(out)) {
        ++at_;
        return out;
      }
    }
    ++at_;
    return out;
  }

  static bool header(const std::string& s) {
    return s.find(".entry") != std::string::npos || s.find(".func") != std::string::npos;
  }

  bool is_label(const std::string& s) const {
    if (at_ + 1 < text_.size() && text_[at_ + 1] == ':') return false;
    return std::all_of(s.begin(), s.end() - 1, [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
    });
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

// A declaration such as ".align 4 .b8 name[32] = {...}" after its state space.
struct Declaration {
  std::string name, type;
  std::uint32_t align = 0, count = 1;
  bool unsized = false;
  std::string initial;
  std::uint32_t bytes() const { return count * type_bytes(type); }
  std::uint32_t alignment() const { return std::max(align, type_bytes(type)); }
};

Declaration read_declaration(std::string_view text, int line) {
  Declaration d;
  const std::size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    d.initial = std::string(trim(text.substr(equals + 1)));
    text = text.substr(0, equals);
  }
  bool want_align = false;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    if (want_align) {
      d.align = std::uint32_t(std::strtoul(word.c_str(), nullptr, 10));
      want_align = false;
    } else if (word == ".align") {
      want_align = true;
    } else if (word[0] == '.') {
      if (type_bytes(word.substr(1)) != 0) d.type = word.substr(1);
    } else {
      d.name += word;
    }
  }
  if (d.type.empty() || d.name.empty()) refuse(cat("no declaration: ", std::string(text)), line);
  for (std::size_t open = d.name.find('['); open != std::string::npos; open = d.name.find('[', open + 1)) {
    if (d.name[open + 1] == ']') d.unsized = true;
    d.count *= std::uint32_t(std::strtoul(d.name.c_str() + open + 1, nullptr, 10));
  }
  d.name = d.name.substr(0, d.name.find('['));
  return d;
}

std::vector<std::byte> initial_bytes(const Declaration& d, int line) {
  std::vector<std::byte> out(d.bytes());
  if (d.initial.empty()) return out;
  const std::uint32_t each = type_bytes(d.type);
  std::string list = d.initial;
  std::erase_if(list, [](char c) { return c == '{' || c == '}' || c == ' '; });
  std::size_t at = 0;
  for (const std::string& value : split(list, ',')) {
    if (value.empty()) continue;
    const bool is_float = value.size() > 2 && value[0] == '0' && std::strchr("fFdD", value[1]) != nullptr;
    const bool is_number = std::isdigit(static_cast<unsigned char>(value[0])) || value[0] == '-';
    if (!is_number) refuse(cat("initialiser of ", d.name, " names ", value), line);
    const std::uint64_t bits = is_float          ? std::strtoull(value.c_str() + 2, nullptr, 16)
                               : value[0] == '-' ? std::uint64_t(std::strtoll(value.c_str(), nullptr, 0))
                                                 : std::strtoull(value.c_str(), nullptr, 0);
    if (at + each > out.size()) refuse(cat("initialiser of ", d.name, " is too long"), line);
    std::memcpy(&out[at], &bits, each);
    at += each;
  }
  return out;
}

void read_parameters(const std::string& list, int line, KernelText* kernel) {
  std::uint32_t at = 0;
  for (const std::string& one : split(list, ',')) {
    if (trim(one).empty()) continue;
    const Declaration d = read_declaration(one, line);
    const std::uint32_t align = std::max(1u, d.alignment());
    at = (at + align - 1) / align * align;
    const Parameter p{at, d.bytes()};
    kernel->parameters[d.name] = p;
    kernel->info.parameters.push_back(p);
    at += d.bytes();
  }
  kernel->info.parameter_bytes = at;
}

// ".maxntid 256, 1, 1" and ".reqntid" after the parameter list.
std::uint32_t thread_limit(const std::string& header) {
  for (const char* word : {".reqntid", ".maxntid"}) {
    const std::size_t at = header.find(word);
    if (at == std::string::npos) continue;
    std::uint32_t product = 1;
    const char* p = header.c_str() + at + std::strlen(word);
    for (;;) {
      char* end = nullptr;
      product *= std::uint32_t(std::strtoul(p, &end, 10));
      while (*end == ' ') ++end;
      if (*end != ',') return product;
      p = end + 1;
    }
  }
  return 0;
}

KernelText read_header(const std::string& header, int line) {
  KernelText kernel;
  const std::size_t entry = header.find(".entry") + 6;
  const std::size_t open = header.find('(', entry);
  const std::size_t close = header.find(')', entry);
  kernel.info.name = std::string(trim(header.substr(entry, std::min(open, header.size()) - entry)));
  if (open != std::string::npos)
    read_parameters(header.substr(open + 1, close - open - 1), line, &kernel);
  else
    kernel.info.name = kernel.info.name.substr(0, kernel.info.name.find_first_of(" ."));
  kernel.info.max_threads = thread_limit(header);
  return kernel;
}

SharedVariable shared_variable(const Declaration& d) {
  return {d.name, d.bytes(), std::max(1u, d.alignment()), d.unsized};
}

class Reader {
 public:
  explicit Reader(std::string_view text) : splitter_(text) {}

  ModuleText read() {
    Statement s;
    while (splitter_.next(&s)) {
      if (starts_with(s.text, ".file")) {
        read_file(s.text);
      } else if (s.text.find(".entry") != std::string::npos) {
        read_kernel(s);
      } else if (s.text == "{") {
        skip_body();  // of a .func, which no kernel may call
      } else if (s.text.find(".func") == std::string::npos) {
        read_variable(s);
      }
    }
    finish();
    return std::move(out_);
  }

 private:
  void read_file(const std::string& text) {
    const std::size_t first = text.find('"'), last = text.rfind('"');
    if (first == last) return;
    const std::string path = text.substr(first + 1, last - first - 1);
    out_.files[std::atoi(text.c_str() + 5)] = path.substr(path.rfind('/') + 1);
  }

  void skip_body() {
    Statement s;
    for (int depth = 1; depth > 0 && splitter_.next(&s);) depth += s.text == "{" ? 1 : s.text == "}" ? -1 : 0;
  }

  void read_kernel(const Statement& header) {
    KernelText kernel = read_header(header.text, header.line);
    Statement s;
    if (!splitter_.next(&s) || s.text != "{") return;  // a declaration only
    for (int depth = 1; splitter_.next(&s);) {
      depth += s.text == "{" ? 1 : s.text == "}" ? -1 : 0;
      if (depth == 0) break;
      kernel.body.push_back(s);
    }
    out_.kernels[kernel.info.name] = std::move(kernel);
  }

  void read_variable(const Statement& s) {
    const auto says = [&](const char* word) { return s.text.find(word) != std::string::npos; };
    if (says(".shared")) {
      shared_.push_back(shared_variable(read_declaration(s.text, s.line)));
    } else if (says(".global") || says(".const")) {
      const Declaration d = read_declaration(s.text, s.line);
      out_.variables.push_back(
          {d.name, d.bytes(), std::max(1u, d.alignment()), says(".const"), initial_bytes(d, s.line)});
    }
  }

  // Shared variables of the module are laid out in every kernel that names them.
  void finish() {
    for (auto& [name, kernel] : out_.kernels) {
      std::vector<Statement> rest;
      for (Statement& s : kernel.body) {
        if (starts_with(s.text, ".shared"))
          kernel.shared.push_back(shared_variable(read_declaration(s.text, s.line)));
        else if (starts_with(s.text, ".local"))
          kernel.local.push_back(shared_variable(read_declaration(s.text, s.line)));
        else
          rest.push_back(std::move(s));
      }
      kernel.body = std::move(rest);
      for (const SharedVariable& v : shared_) {
        const bool named = std::any_of(kernel.body.begin(), kernel.body.end(), [&](const Statement& s) {
          return s.text.find(v.name) != std::string::npos;
        });
        if (named) kernel.shared.push_back(v);
      }
      std::uint32_t at = 0;
      for (const SharedVariable& v : kernel.shared) {
        if (!v.dynamic) at = (at + v.align - 1) / v.align * v.align + v.bytes;
      }
      kernel.info.static_shared_bytes = at;
    }
  }

  Splitter splitter_;
  ModuleText out_;
  std::vector<SharedVariable> shared_;
};

}  // namespace

std::uint32_t type_bytes(std::string_view type) {
  static const std::map<std::string_view, std::uint32_t> kBytes{
      {"b8", 1},   {"u8", 1},    {"s8", 1},     {"b16", 2},   {"u16", 2},   {"s16", 2},
      {"f16", 2},  {"bf16", 2},  {"b32", 4},    {"u32", 4},   {"s32", 4},   {"f32", 4},
      {"tf32", 4}, {"f16x2", 4}, {"bf16x2", 4}, {"u16x2", 4}, {"s16x2", 4}, {"b64", 8},
      {"u64", 8},  {"s64", 8},   {"f64", 8},    {"b128", 16}};
  const auto it = kBytes.find(type);
  return it == kBytes.end() ? 0 : it->second;
}

ModuleText read_module(std::string_view text) { return Reader(text).read(); }

}  // namespace zt::emulator::ptx
