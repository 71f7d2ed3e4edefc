// Turns a kernel's text into a Program. The instruction groups (op_*.cpp) each put their decoders into one table.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "module_text.h"
#include "program.h"

namespace zt::emulator::ptx {

class Decoder;
using DecodeFunction = void (*)(Decoder&);
using OpTable = std::unordered_map<std::string_view, DecodeFunction>;

void add_move_ops(OpTable* table);
void add_integer_ops(OpTable* table);
void add_float_ops(OpTable* table);
void add_compare_ops(OpTable* table);
void add_convert_ops(OpTable* table);
void add_memory_ops(OpTable* table);
void add_atomic_ops(OpTable* table);
void add_warp_ops(OpTable* table);
void add_control_ops(OpTable* table);
void add_matrix_ops(OpTable* table);
void add_async_ops(OpTable* table);
void add_wgmma_ops(OpTable* table);

// Decodes one kernel. `variables` gives the addresses of the module's variables.
// Throws zt::Error for an instruction it does not know, with file and line.
Program decode(const KernelText& text, const std::map<int, std::string>& files,
               const std::map<std::string, std::uint64_t>& variables);

// What a decode function works with: the instruction's words and operands, and the program it adds to.
class Decoder {
 public:
  Decoder(const KernelText& text, const std::map<int, std::string>& files,
          const std::map<std::string, std::uint64_t>& variables);
  Program decode();

  // The words of "fma.rn.ftz.f32": name "fma", modifiers "rn", "ftz", "f32".
  const std::string& name() const { return name_; }
  const std::vector<std::string>& modifiers() const { return modifiers_; }
  bool has(std::string_view modifier) const;
  // The first modifier that is a type, and the last.
  std::string type() const;
  std::string last_type() const;
  std::size_t operands() const { return operands_.size(); }
  const std::string& operand(std::size_t i) const;
  bool is_vector(std::size_t i) const { return operand(i)[0] == '{'; }
  std::vector<std::string> elements(std::size_t i) const;  // of "{a, b}", or the operand itself

  // A register or constant to be read as `bytes` wide lanes. An immediate is read as a value of `type`.
  Ref read(std::size_t i, std::string_view type) { return read_text(operand(i), type); }
  Ref read_text(std::string_view text, std::string_view type);
  Ref read_predicate(std::size_t i) { return read_predicate_text(operand(i)); }
  Ref read_predicate_text(std::string_view text);
  // A register to be written as lanes of that width. Where it was declared wider, the value is put into a
  // temporary and widened afterwards, with its sign if `sign`.
  Ref write(std::size_t i, std::uint32_t bytes, bool sign = false) {
    return write_text(operand(i), bytes, sign);
  }
  Ref write_text(std::string_view text, std::uint32_t bytes, bool sign = false);
  Ref write_predicate(std::string_view text);
  // "_" is a destination that nobody wants.
  bool ignored(std::string_view text) const { return text == "_"; }
  std::uint32_t declared_bytes(std::string_view name) const;  // 0: no register
  std::int64_t literal(std::size_t i) const;
  bool is_literal(std::size_t i) const;
  bool is_predicate(std::size_t i) const;
  Ref temporary(std::uint32_t bytes);
  Ref constant(std::uint64_t bits, std::uint32_t bytes);
  // "[base+offset]" into inst.a, inst.imm and inst.wide_address.
  void address(std::size_t i, Inst* inst);
  void address_text(std::string_view text, Inst* inst);
  Ref special(Special s);
  std::uint32_t add_list(const std::vector<Ref>& refs);
  std::optional<Parameter> parameter(std::string_view name) const;
  Ref parameter_value(std::uint32_t offset, std::uint32_t bytes, std::uint32_t width, bool sign);
  Ref parameter_address(std::int64_t offset);
  void target(Inst* inst, std::string_view label);
  void jump_table(Inst* inst, std::string_view label);

  // Puts the instruction into the program, under the statement's guard.
  void emit(Inst inst);
  // Puts a helper in front of or behind it.
  void emit_before(Inst inst);
  void emit_after(Inst inst) { after_.push_back(inst); }

  [[noreturn]] void refuse(const std::string& why = "");

 private:
  struct Register {
    Ref ref;
    std::uint32_t bytes;  // 0: predicate
  };
  void declare_registers(const std::string& text);
  void declare(const std::string& name, std::uint32_t bytes);
  const Register* find(std::string_view name) const;
  void statement(const Statement& s);
  void location(const std::string& text);
  void instruction(std::string text);
  void split_operands(std::string_view text);
  void lay_out_memory();
  void resolve_labels();
  std::uint64_t immediate(std::string_view text, std::string_view type) const;
  std::optional<std::uint64_t> symbol(std::string_view name) const;

  const KernelText& text_;
  const std::map<int, std::string>& files_;
  const std::map<std::string, std::uint64_t>& variables_;
  Program program_;
  std::vector<std::unordered_map<std::string, Register>> scopes_;
  std::map<std::string, std::uint64_t, std::less<>> symbols_;  // shared and local offsets
  std::map<std::pair<std::uint64_t, std::uint32_t>, Ref> constants_;
  struct Branch {
    std::size_t at;
    std::string label;
    std::vector<int> scopes;  // that it stands in, outermost first
  };
  struct Table {
    std::vector<std::string> targets;
    std::vector<int> scopes;
  };
  std::map<std::pair<std::string, int>, std::int32_t> labels_;  // by name and scope
  std::vector<Branch> branches_;
  std::map<std::string, Table> tables_;
  std::vector<std::pair<std::size_t, std::string>> table_uses_;
  SourceLine source_;
  int line_ = 0;
  std::string whole_, name_;
  std::vector<std::string> modifiers_, operands_;
  Ref guard_ = kNoRef;
  bool guard_negated_ = false;
  std::vector<Inst> after_;
  int scope_count_ = 0;
  std::vector<int> scope_ids_;
};

// The floating-point forms of names that integers share.
void decode_float_add(Decoder& d);
void decode_float_sub(Decoder& d);
void decode_float_mul(Decoder& d);
void decode_float_fma(Decoder& d);
void decode_float_div(Decoder& d);
void decode_float_min(Decoder& d);
void decode_float_max(Decoder& d);
void decode_float_neg(Decoder& d);
void decode_float_abs(Decoder& d);
void decode_half_arithmetic(Decoder& d);
void decode_half_function(Decoder& d);

// Lane-wise helpers that the decoder itself needs.
Handler narrow_handler(std::uint32_t from, std::uint32_t to);
Handler widen_handler(std::uint32_t from, std::uint32_t to, bool sign);
Handler not_predicate_handler();
Handler add_handler(bool wide);  // of 64 or 32 bits

}  // namespace zt::emulator::ptx
