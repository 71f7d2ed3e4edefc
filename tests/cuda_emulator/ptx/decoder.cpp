#include "decoder.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "half.h"

namespace zt::emulator::ptx {

namespace {

const OpTable& op_table() {
  static const OpTable kTable = [] {
    OpTable t;
    add_move_ops(&t);
    add_integer_ops(&t);
    add_float_ops(&t);
    add_compare_ops(&t);
    add_convert_ops(&t);
    add_memory_ops(&t);
    add_atomic_ops(&t);
    add_warp_ops(&t);
    add_control_ops(&t);
    add_matrix_ops(&t);
    add_async_ops(&t);
    add_wgmma_ops(&t);
    return t;
  }();
  return kTable;
}

const std::map<std::string_view, Special>& special_names() {
  using enum Special;
  static const std::map<std::string_view, Special> kNames{{"%tid.x", tid_x},
                                                          {"%tid.y", tid_y},
                                                          {"%tid.z", tid_z},
                                                          {"%ntid.x", ntid_x},
                                                          {"%ntid.y", ntid_y},
                                                          {"%ntid.z", ntid_z},
                                                          {"%ctaid.x", ctaid_x},
                                                          {"%ctaid.y", ctaid_y},
                                                          {"%ctaid.z", ctaid_z},
                                                          {"%nctaid.x", nctaid_x},
                                                          {"%nctaid.y", nctaid_y},
                                                          {"%nctaid.z", nctaid_z},
                                                          {"%laneid", laneid},
                                                          {"%warpid", warpid},
                                                          {"%nwarpid", nwarpid},
                                                          {"%lanemask_eq", lanemask_eq},
                                                          {"%lanemask_le", lanemask_le},
                                                          {"%lanemask_lt", lanemask_lt},
                                                          {"%lanemask_ge", lanemask_ge},
                                                          {"%lanemask_gt", lanemask_gt},
                                                          {"%dynamic_smem_size", dynamic_smem_size},
                                                          {"%smid", zero},
                                                          {"%gridid", zero},
                                                          {"%cluster_ctarank", zero},
                                                          {"%clock", clock},
                                                          {"%clock_hi", zero},
                                                          {"%clock64", clock64},
                                                          {"%globaltimer", clock64},
                                                          {"%globaltimer_lo", clock}};
  return kNames;
}

bool starts_number(std::string_view s) {
  return !s.empty() && (std::isdigit(static_cast<unsigned char>(s[0])) || (s[0] == '-' && s.size() > 1));
}

}  // namespace

Program decode(const KernelText& text, const std::map<int, std::string>& files,
               const std::map<std::string, std::uint64_t>& variables) {
  return Decoder(text, files, variables).decode();
}

Decoder::Decoder(const KernelText& text, const std::map<int, std::string>& files,
                 const std::map<std::string, std::uint64_t>& variables)
    : text_(text), files_(files), variables_(variables) {}

Program Decoder::decode() {
  lay_out_memory();
  scopes_.emplace_back();
  scope_ids_.push_back(scope_count_++);
  for (const Statement& s : text_.body) statement(s);
  Inst end;
  end.source = std::uint32_t(program_.sources.size());
  program_.sources.push_back(source_);
  name_ = whole_ = "ret";
  guard_ = kNoRef;
  op_table().at("ret")(*this);
  resolve_labels();
  program_.register_bytes = (program_.register_bytes + 255) / 256 * 256;
  return std::move(program_);
}

// Static variables first, then the dynamic part where the alignment it was declared with allows.
void Decoder::lay_out_memory() {
  std::uint32_t at = 0, dynamic_align = 16;
  const auto place = [](std::uint32_t* end, const SharedVariable& v) {
    const std::uint32_t start = (*end + v.align - 1) / v.align * v.align;
    *end = start + v.bytes;
    return start;
  };
  for (const SharedVariable& v : text_.shared) {
    if (v.dynamic)
      dynamic_align = std::max(dynamic_align, v.align);
    else
      symbols_[v.name] = place(&at, v);
  }
  program_.static_shared = at;
  program_.dynamic_shared = (at + dynamic_align - 1) / dynamic_align * dynamic_align;
  for (const SharedVariable& v : text_.shared) {
    if (v.dynamic) symbols_[v.name] = program_.dynamic_shared;
  }
  std::uint32_t local = 0;
  for (const SharedVariable& v : text_.local) symbols_[v.name] = place(&local, v);
  program_.local_bytes = (local + 15) / 16 * 16;
}

void Decoder::statement(const Statement& s) {
  line_ = s.line;
  source_.text_line = s.line;
  if (s.text == "{") {
    scopes_.emplace_back();
    scope_ids_.push_back(scope_count_++);
  } else if (s.text == "}") {
    scopes_.pop_back();
    scope_ids_.pop_back();
  } else if (starts_with(s.text, ".loc")) {
    location(s.text);
  } else if (starts_with(s.text, ".reg")) {
    declare_registers(s.text);
  } else if (s.text.back() == ':') {
    labels_[{s.text.substr(0, s.text.size() - 1), scope_ids_.back()}] = std::int32_t(program_.code.size());
  } else if (s.text.find(".branchtargets") != std::string::npos) {
    std::vector<std::string> targets;
    for (const std::string& t : split(s.text.substr(s.text.find(".branchtargets") + 14), ','))
      targets.emplace_back(trim(t));
    for (const auto& [label, at] : labels_) {
      if (at == std::int32_t(program_.code.size())) tables_[label.first] = {targets, scope_ids_};
    }
  } else if (s.text[0] != '.') {
    instruction(s.text);
  }
}

void Decoder::location(const std::string& text) {
  const int text_line = source_.text_line;
  source_ = SourceLine();
  source_.text_line = text_line;
  std::sscanf(text.c_str(), ".loc %d %d", &source_.file, &source_.line);
  const std::size_t at = text.find("inlined_at ");
  if (at != std::string::npos)
    std::sscanf(text.c_str() + at, "inlined_at %d %d", &source_.outer_file, &source_.outer_line);
}

// ".reg .b32 %r<12>" declares %r0..%r11; ".reg .pred p, q" declares two.
void Decoder::declare_registers(const std::string& text) {
  std::size_t at = 4;
  std::uint32_t bytes = 0;
  while (at < text.size()) {
    at = text.find_first_not_of(' ', at);
    if (at == std::string::npos || text[at] != '.') break;
    const std::size_t end = std::min(text.find_first_of(" %", at), text.size());
    const std::string word = text.substr(at + 1, end - at - 1);
    if (word == "v2" || word == "v4") refuse("vector registers");
    bytes = word == "pred" ? 0 : type_bytes(word);
    at = end;
  }
  for (const std::string& one : split(text.substr(std::min(at, text.size())), ',')) {
    const std::string name(trim(one));
    const std::size_t open = name.find('<');
    if (open == std::string::npos) {
      declare(name, bytes);
      continue;
    }
    const int n = std::atoi(name.c_str() + open + 1);
    for (int i = 0; i < n; ++i) declare(cat(name.substr(0, open), i), bytes);
  }
}

void Decoder::declare(const std::string& name, std::uint32_t bytes) {
  scopes_.back()[name] = {temporary(bytes), bytes};
}

const Decoder::Register* Decoder::find(std::string_view name) const {
  const std::string key(name);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->find(key);
    if (it != scope->end()) return &it->second;
  }
  return nullptr;
}

Ref Decoder::temporary(std::uint32_t bytes) {
  const std::uint32_t size = bytes == 0 ? 4 : bytes * 32, align = bytes == 0 ? 4 : 64;
  program_.register_bytes = (program_.register_bytes + align - 1) / align * align;
  const Ref ref = program_.register_bytes;
  program_.register_bytes += size;
  return ref;
}

Ref Decoder::constant(std::uint64_t bits, std::uint32_t bytes) {
  const auto [it, is_new] = constants_.try_emplace({bits, bytes}, 0);
  if (!is_new) return it->second;
  std::vector<std::uint8_t>& pool = program_.constants;
  pool.resize((pool.size() + 63) / 64 * 64);
  const std::size_t at = pool.size();
  if (bytes == 0) {
    pool.resize(at + 4);
    const Mask all = bits != 0 ? kAllLanes : 0;
    std::memcpy(&pool[at], &all, 4);
  } else {
    pool.resize(at + std::size_t(bytes) * 32);
    for (std::size_t l = 0; l < 32; ++l) std::memcpy(&pool[at + l * bytes], &bits, bytes);
  }
  return it->second = Ref(at) | 1;
}

Ref Decoder::special(Special s) {
  const auto it = program_.specials.find(s);
  if (it != program_.specials.end()) return it->second;
  return program_.specials[s] = temporary(4);
}

std::uint32_t Decoder::add_list(const std::vector<Ref>& refs) {
  const std::uint32_t at = std::uint32_t(program_.lists.size());
  program_.lists.insert(program_.lists.end(), refs.begin(), refs.end());
  return at;
}

bool Decoder::has(std::string_view modifier) const {
  return std::find(modifiers_.begin(), modifiers_.end(), modifier) != modifiers_.end();
}

std::string Decoder::type() const {
  for (const std::string& m : modifiers_) {
    if (m == "pred" || type_bytes(m) != 0) return m;
  }
  return "";
}

std::string Decoder::last_type() const {
  for (auto m = modifiers_.rbegin(); m != modifiers_.rend(); ++m) {
    if (*m == "pred" || type_bytes(*m) != 0) return *m;
  }
  return "";
}

const std::string& Decoder::operand(std::size_t i) const {
  if (i >= operands_.size()) const_cast<Decoder*>(this)->refuse("operands are missing");
  return operands_[i];
}

std::vector<std::string> Decoder::elements(std::size_t i) const {
  const std::string& text = operand(i);
  if (text[0] != '{') return {text};
  std::vector<std::string> out;
  for (const std::string& e : split(text.substr(1, text.size() - 2), ',')) out.emplace_back(trim(e));
  return out;
}

std::optional<std::uint64_t> Decoder::symbol(std::string_view name) const {
  const auto own = symbols_.find(name);
  if (own != symbols_.end()) return own->second;
  const auto global = variables_.find(std::string(name));
  if (global != variables_.end()) return global->second;
  return std::nullopt;
}

std::uint64_t Decoder::immediate(std::string_view text, std::string_view type) const {
  std::string s(text);
  if (s.size() > 2 && s[0] == '0' && std::strchr("fFdD", s[1]) != nullptr) {
    const std::uint64_t bits = std::strtoull(s.c_str() + 2, nullptr, 16);
    const bool is_double = s[1] == 'd' || s[1] == 'D';
    if (type == "f64" && !is_double) {
      const double wide = from_bits<float>(std::uint32_t(bits));
      return bits_of(wide);
    }
    if (type == "f32" && is_double) return bits_of(float(from_bits<double>(bits)));
    return bits;
  }
  const bool is_float_type = type == "f32" || type == "f64";
  const bool has_point = s.find('.') != std::string::npos;
  if (is_float_type && (has_point || !starts_with(s, "0x"))) {
    const double value = std::strtod(s.c_str(), nullptr);
    return type == "f64" ? bits_of(value) : bits_of(float(value));
  }
  while (!s.empty() && (s.back() == 'U' || s.back() == 'u')) s.pop_back();
  return s[0] == '-' ? std::uint64_t(std::strtoll(s.c_str(), nullptr, 0))
                     : std::strtoull(s.c_str(), nullptr, 0);
}

bool Decoder::is_literal(std::size_t i) const { return starts_number(operand(i)); }

bool Decoder::is_predicate(std::size_t i) const {
  const Register* r = find(operand(i));
  return r != nullptr && r->bytes == 0;
}

std::int64_t Decoder::literal(std::size_t i) const {
  if (!is_literal(i)) const_cast<Decoder*>(this)->refuse(cat("operand ", i + 1, " must be a literal"));
  return std::int64_t(immediate(operand(i), "s64"));
}

std::uint32_t Decoder::declared_bytes(std::string_view name) const {
  const Register* r = find(name);
  return r == nullptr ? 0 : r->bytes;
}

Ref Decoder::read_text(std::string_view text, std::string_view type) {
  text = trim(text);
  if (type == "pred") return read_predicate_text(text);
  const std::uint32_t bytes = std::max(2u, type_bytes(type));  // bytes live in 16-bit registers
  if (const Register* r = find(text)) {
    if (r->bytes == bytes) return r->ref;
    if (r->bytes < bytes && r->bytes != 0) refuse(cat(text, " is narrower than .", type));
    Inst narrow;
    narrow.run = narrow_handler(r->bytes, bytes);
    narrow.a = r->ref;
    narrow.d = temporary(bytes);
    emit_before(narrow);
    return narrow.d;
  }
  const auto named = special_names().find(text);
  if (named != special_names().end()) {
    const Ref ref = special(named->second);
    if (bytes == 4) return ref;
    Inst change;
    change.run = bytes == 8 ? widen_handler(4, 8, false) : narrow_handler(4, bytes);
    change.a = ref;
    change.d = temporary(bytes);
    emit_before(change);
    return change.d;
  }
  if (starts_number(text)) return constant(immediate(text, type), bytes);
  if (parameter(text)) return parameter_address(parameter(text)->offset);
  const std::size_t plus = text.find('+');
  if (plus != std::string_view::npos && parameter(trim(text.substr(0, plus))))
    return parameter_address(parameter(trim(text.substr(0, plus)))->offset +
                             std::int64_t(immediate(trim(text.substr(plus + 1)), "s64")));
  if (plus != std::string_view::npos && symbol(trim(text.substr(0, plus))))
    return constant(*symbol(trim(text.substr(0, plus))) + immediate(trim(text.substr(plus + 1)), "s64"),
                    bytes);
  if (symbol(text)) return constant(*symbol(text), bytes);
  refuse(cat("unknown operand ", text));
}

Ref Decoder::read_predicate_text(std::string_view text) {
  text = trim(text);
  const bool negated = text[0] == '!';
  if (negated) text.remove_prefix(1);
  Ref ref = kNoRef;
  if (const Register* r = find(text)) {
    if (r->bytes != 0) refuse(cat(text, " is no predicate"));
    ref = r->ref;
  } else if (starts_number(text)) {
    ref = constant(immediate(text, "u32") != 0, 0);
  } else {
    refuse(cat("unknown predicate ", text));
  }
  if (!negated) return ref;
  Inst inst;
  inst.run = not_predicate_handler();
  inst.a = ref;
  inst.d = temporary(0);
  emit_before(inst);
  return inst.d;
}

Ref Decoder::write_text(std::string_view text, std::uint32_t bytes, bool sign) {
  text = trim(text);
  bytes = std::max(2u, bytes);
  if (ignored(text)) return temporary(bytes);
  const Register* r = find(text);
  if (r == nullptr) refuse(cat("unknown register ", text));
  if (r->bytes == bytes) return r->ref;
  if (r->bytes < bytes) refuse(cat(text, " is too narrow"));
  Inst widen;
  widen.run = widen_handler(bytes, r->bytes, sign);
  widen.a = temporary(bytes);
  widen.d = r->ref;
  emit_after(widen);
  return widen.a;
}

Ref Decoder::write_predicate(std::string_view text) {
  text = trim(text);
  if (ignored(text)) return temporary(0);
  const Register* r = find(text);
  if (r == nullptr || r->bytes != 0) refuse(cat(text, " is no predicate"));
  return r->ref;
}

void Decoder::address(std::size_t i, Inst* inst) { address_text(operand(i), inst); }

void Decoder::address_text(std::string_view text, Inst* inst) {
  if (text.size() < 2 || text[0] != '[') refuse(cat("no address: ", text));
  text = trim(text.substr(1, text.size() - 2));
  const std::size_t plus = text.find_first_of("+");
  std::string_view base = trim(text.substr(0, plus));
  if (plus != std::string_view::npos)
    inst->imm += std::int64_t(immediate(trim(text.substr(plus + 1)), "s64"));
  if (const Register* r = find(base)) {
    inst->a = r->ref;
    inst->wide_address = r->bytes == 8;
    if (r->bytes != 4 && r->bytes != 8) refuse("address register of a wrong width");
    return;
  }
  inst->wide_address = true;
  inst->a = constant(0, 8);
  if (starts_number(base)) {
    inst->imm += std::int64_t(immediate(base, "s64"));
  } else if (const auto value = symbol(base)) {
    inst->imm += std::int64_t(*value);
  } else if (const auto p = parameter(base)) {
    inst->imm += p->offset;
  } else {
    refuse(cat("unknown address ", base));
  }
}

std::optional<Parameter> Decoder::parameter(std::string_view name) const {
  const auto it = text_.parameters.find(std::string(name));
  if (it == text_.parameters.end()) return std::nullopt;
  return it->second;
}

// A constant that the launch fills with the parameter's value.
Ref Decoder::parameter_value(std::uint32_t offset, std::uint32_t bytes, std::uint32_t width, bool sign) {
  std::vector<std::uint8_t>& pool = program_.constants;
  pool.resize((pool.size() + 63) / 64 * 64);
  const std::uint32_t at = std::uint32_t(pool.size());
  pool.resize(at + width * 32);
  program_.parameter_slots.push_back({at, offset, std::uint8_t(width), std::uint8_t(bytes), sign});
  return at | 1;
}

Ref Decoder::parameter_address(std::int64_t offset) {
  std::vector<std::uint8_t>& pool = program_.constants;
  pool.resize((pool.size() + 63) / 64 * 64);
  const std::uint32_t at = std::uint32_t(pool.size());
  pool.resize(at + 8 * 32);
  program_.parameter_address_slots.push_back(at);
  program_.parameter_address_offsets.push_back(offset);
  return at | 1;
}

void Decoder::target(Inst*, std::string_view label_name) {
  branches_.push_back({program_.code.size(), std::string(trim(label_name)), scope_ids_});
}

void Decoder::jump_table(Inst*, std::string_view label_name) {
  table_uses_.emplace_back(program_.code.size(), std::string(trim(label_name)));
}

// A label belongs to the braces it stands in; the innermost one is meant.
void Decoder::resolve_labels() {
  const auto place = [&](const std::string& name, const std::vector<int>& scopes) {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
      const auto it = labels_.find({name, *scope});
      if (it != labels_.end()) return it->second;
    }
    refuse(cat("unknown label ", name));
  };
  for (const Branch& b : branches_) program_.code[b.at].target = place(b.label, b.scopes);
  for (const auto& [at, name] : table_uses_) {
    const auto it = tables_.find(name);
    if (it == tables_.end()) refuse(cat("unknown branch table ", name));
    program_.code[at].list = std::uint32_t(program_.jump_tables.size());
    program_.code[at].count = std::uint16_t(it->second.targets.size());
    for (const std::string& t : it->second.targets)
      program_.jump_tables.push_back(place(t, it->second.scopes));
  }
}

void Decoder::emit(Inst inst) {
  inst.guard = guard_;
  inst.guard_negated = guard_negated_;
  inst.source = std::uint32_t(program_.sources.size() - 1);
  program_.code.push_back(inst);
}

void Decoder::emit_before(Inst inst) {
  inst.helper = true;
  inst.source = std::uint32_t(program_.sources.size() - 1);
  program_.code.push_back(inst);
}

void Decoder::instruction(std::string text) {
  program_.sources.push_back(source_);
  whole_ = text;
  guard_ = kNoRef;
  guard_negated_ = false;
  if (text[0] == '@') {
    const std::size_t end = text.find_first_of(" \t");
    std::string guard = text.substr(1, end - 1);
    guard_negated_ = guard[0] == '!';
    if (guard_negated_) guard = guard.substr(1);
    guard_ = read_predicate_text(guard);
    text = std::string(trim(text.substr(end)));
  }
  const std::size_t end = std::min(text.find_first_of(" \t["), text.size());
  modifiers_ = split(text.substr(0, end), '.');
  name_ = modifiers_.front();
  modifiers_.erase(modifiers_.begin());
  split_operands(std::string_view(text).substr(end));
  after_.clear();
  const auto it = op_table().find(name_);
  if (it == op_table().end()) refuse("unknown instruction");
  it->second(*this);
  for (Inst inst : after_) {
    emit(inst);
    program_.code.back().helper = true;
  }
}

void Decoder::split_operands(std::string_view text) {
  operands_.clear();
  int depth = 0;
  std::string one;
  const auto finish = [&] {
    const std::string_view t = trim(one);
    if (!t.empty()) operands_.emplace_back(t);
    one.clear();
  };
  for (const char c : text) {
    depth += c == '{' || c == '[' || c == '(' ? 1 : c == '}' || c == ']' || c == ')' ? -1 : 0;
    if (c == ',' && depth == 0)
      finish();
    else
      one += c;
  }
  finish();
}

void Decoder::refuse(const std::string& why) {
  const auto file = files_.find(source_.file);
  std::string where = file == files_.end() ? "" : cat(" (", file->second, ":", source_.line, ")");
  const auto outer = files_.find(source_.outer_file);
  if (outer != files_.end()) where += cat(" from ", outer->second, ":", source_.outer_line);
  throw Error(
      Blame::bug,
      cat("the interpreter cannot run `", whole_, "`", where, ", PTX line ", line_, " of ", text_.info.name,
          why.empty() ? "" : ": ", why),
      "an instruction and its interpreter case arrive in one change: tests/cuda_emulator/ptx/op_*.cpp");
}

}  // namespace zt::emulator::ptx
