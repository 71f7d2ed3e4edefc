#include "base/text.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/error.h"
#include "schedule/schedule.h"

namespace zt::schedule {
namespace {

constexpr std::array<OpKind, 9> kOpKinds = {OpKind::gather, OpKind::forward,  OpKind::recompute,
                                            OpKind::head,   OpKind::backward, OpKind::accumulate,
                                            OpKind::reduce, OpKind::norm,     OpKind::update};
constexpr std::array<Lane, kLanes> kLaneList = {Lane::compute, Lane::comm, Lane::copy};
constexpr std::array<SlotKind, 12> kSlotKinds = {
    SlotKind::X, SlotKind::S, SlotKind::D,    SlotKind::W,    SlotKind::G,     SlotKind::P,
    SlotKind::R, SlotKind::O, SlotKind::loss, SlotKind::norm, SlotKind::batch, SlotKind::workspace};

using Row = std::vector<std::string>;
const Row kOpHeader = {"#", "lane", "op", "reads", "changes", "born", "freed", "waits"};
const Row kSlotHeader = {"slot", "bytes", "offset"};

// ---- Printing

// Columns as wide as their widest cell, two spaces apart; the first one is flush right when it is a number.
std::string table(const std::vector<Row>& rows, bool number_first) {
  std::vector<std::size_t> width(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string pad(width[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (c == 0 && number_first ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string names(const Schedule& s, const std::vector<SlotId>& list) {
  std::vector<std::string> parts;
  for (SlotId id : list) parts.push_back(name(s.slots[std::size_t(id)]));
  return join(parts, " ");
}

std::string numbers(const std::vector<int>& list) {
  std::vector<std::string> parts;
  for (int i : list) parts.push_back(cat(i));
  return join(parts, " ");
}

// ---- Parsing

// Takes a number off the front of `text`; nothing when there is none or it is too large for an index.
std::optional<int> take_number(std::string_view& text) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  std::int64_t value = 0;
  if (digits == 0 || digits > 9 || !parse_int(text.substr(0, digits), &value)) return std::nullopt;
  text.remove_prefix(digits);
  return int(value);
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!starts_with(text, prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// KIND[.BLOCK][@MICRO]['...]
std::optional<Slot> parse_slot_name(std::string_view text) {
  const std::string_view word = text.substr(0, text.find_first_of(".@'"));
  const auto kind =
      std::find_if(kSlotKinds.begin(), kSlotKinds.end(), [&](SlotKind k) { return name(k) == word; });
  if (kind == kSlotKinds.end()) return std::nullopt;
  text.remove_prefix(word.size());
  Slot slot{.kind = *kind};
  for (const auto& [mark, member] : {std::pair{".", &slot.block}, std::pair{"@", &slot.micro}}) {
    if (!take(text, mark)) continue;
    const auto number = take_number(text);
    if (!number) return std::nullopt;
    *member = *number;
  }
  while (take(text, "'")) ++slot.generation;
  return text.empty() ? std::optional(slot) : std::nullopt;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = trim(text)).empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

// Cells stand below their column's title; the first one reaches from the left edge.
class Columns {
 public:
  Columns(std::string_view header, const Row& titles) {
    std::size_t from = 0;
    for (const std::string& title : titles) {
      const std::size_t at = header.find(title, from);
      starts_.push_back(starts_.empty() ? 0 : std::min(at, header.size()));
      from = starts_.back() + title.size();
    }
  }
  std::string_view cell(std::string_view line, std::size_t column) const {
    const std::size_t begin = std::min(starts_[column], line.size());
    const std::size_t end =
        column + 1 < starts_.size() ? std::min(starts_[column + 1], line.size()) : line.size();
    return trim(line.substr(begin, std::max(begin, end) - begin));
  }

 private:
  std::vector<std::size_t> starts_;
};

class Parser {
 public:
  explicit Parser(std::string_view text) {
    for (const std::string& line : split(text, '\n')) lines_.push_back(line);
  }

  Schedule parse() {
    const std::size_t ops = find(kOpHeader), slots = find(kSlotHeader);
    if (ops == lines_.size() || slots == lines_.size() || slots < ops) {
      problems_.add("there is no table of ops followed by a table of slots");
    } else {
      parse_head(ops);
      const Columns slot_columns(lines_[slots], kSlotHeader), op_columns(lines_[ops], kOpHeader);
      for (std::size_t i = slots + 1; i < lines_.size(); ++i)
        if (!trim(lines_[i]).empty()) parse_slot(i, slot_columns);
      for (std::size_t i = ops + 1; i < slots; ++i)
        if (!trim(lines_[i]).empty()) parse_op(i, op_columns);
    }
    problems_.throw_if_any(Blame::data, "this is not the text of a step:",
                           "it must be what `zerotrain explain` prints, columns aligned below their titles");
    return std::move(s_);
  }

 private:
  using Identity = std::tuple<SlotKind, int, int, int>;
  static Identity identity(const Slot& slot) { return {slot.kind, slot.block, slot.micro, slot.generation}; }

  void fault(std::size_t line, const std::string& what) {
    constexpr std::size_t kMost = 20;
    if (problems_.list().size() < kMost) problems_.add(cat("line ", line + 1, ": ", what));
  }

  std::size_t find(const Row& header) const {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const auto words = words_of(lines_[i]);
      if (std::equal(words.begin(), words.end(), header.begin(), header.end())) return i;
    }
    return lines_.size();
  }

  // "train, arena 1234 bytes"
  void parse_head(std::size_t ops) {
    for (std::size_t i = 0; i < ops; ++i) {
      const auto words = words_of(lines_[i]);
      if (words.empty()) continue;
      if (words.size() != 4 || (words[0] != "train," && words[0] != "eval,") || words[1] != "arena" ||
          words[3] != "bytes" || !parse_int(words[2], &s_.arena_bytes))
        return fault(i, "must be `train, arena N bytes` or `eval, arena N bytes`");
      s_.kind = words[0] == "train," ? StepKind::train : StepKind::eval;
      return;
    }
    fault(ops, "the line with the kind of step and the arena's size is missing above");
  }

  void parse_slot(std::size_t line, const Columns& columns) {
    const std::string_view word = columns.cell(lines_[line], 0);
    const auto parsed = parse_slot_name(word);
    if (!parsed) return fault(line, cat("'", word, "' is not a slot"));
    Slot slot = *parsed;
    if (!parse_int(columns.cell(lines_[line], 1), &slot.bytes)) return fault(line, "bytes must be a number");
    const std::string_view offset = columns.cell(lines_[line], 2);
    if (permanent(slot) ? offset != "permanent" : !parse_int(offset, &slot.offset))
      return fault(line, permanent(slot) ? "offset must be `permanent`" : "offset must be a number");
    if (!ids_.insert({identity(slot), SlotId(s_.slots.size())}).second)
      return fault(line, cat("slot '", word, "' is listed twice"));
    s_.slots.push_back(slot);
  }

  void parse_op(std::size_t line, const Columns& columns) {
    const std::string& text = lines_[line];
    Op op;
    std::int64_t number = -1;
    if (!parse_int(columns.cell(text, 0), &number) || number != std::int64_t(s_.ops.size()))
      fault(line, cat("ops are numbered in order, here must stand ", s_.ops.size()));
    const std::string_view lane = columns.cell(text, 1);
    const auto found =
        std::find_if(kLaneList.begin(), kLaneList.end(), [&](Lane l) { return name(l) == lane; });
    if (found == kLaneList.end())
      fault(line, cat("'", lane, "' is not a lane"));
    else
      op.lane = *found;
    parse_op_name(line, columns.cell(text, 2), op);
    op.reads = slots(line, columns.cell(text, 3));
    op.writes = slots(line, columns.cell(text, 4));
    op.births = slots(line, columns.cell(text, 5));
    op.frees = slots(line, columns.cell(text, 6));
    for (std::string_view word : words_of(columns.cell(text, 7))) {
      std::int64_t wait = 0;
      if (!parse_int(word, &wait) || wait != std::int64_t(int(wait)))
        fault(line, cat("'", word, "' is not the number of an op"));
      else
        op.waits.push_back(int(wait));
    }
    s_.ops.push_back(std::move(op));
  }

  void parse_op_name(std::size_t line, std::string_view text, Op& op) {
    const auto words = words_of(text);
    const std::string_view kind = words.empty() ? "" : words.front();
    const auto found =
        std::find_if(kOpKinds.begin(), kOpKinds.end(), [&](OpKind k) { return name(k) == kind; });
    if (found == kOpKinds.end()) return fault(line, cat("'", kind, "' is not a kind of op"));
    op.kind = *found;
    for (std::size_t i = 1; i < words.size(); ++i) {
      std::string_view word = words[i];
      int& member = word.front() == 'b' ? op.block : op.micro;
      const bool known = take(word, "b") || take(word, "m");
      const auto number = take_number(word);
      if (!known || !number || !word.empty() || member != -1)
        return fault(line, cat("'", words[i], "' is neither a block (b3) nor a micro-batch (m0)"));
      member = *number;
    }
  }

  std::vector<SlotId> slots(std::size_t line, std::string_view cell) {
    std::vector<SlotId> list;
    for (std::string_view word : words_of(cell)) {
      const auto slot = parse_slot_name(word);
      const auto found = slot ? ids_.find(identity(*slot)) : ids_.end();
      if (!slot)
        fault(line, cat("'", word, "' is not a slot"));
      else if (found == ids_.end())
        fault(line, cat("slot '", name(*slot), "' is not in the table of slots"));
      else
        list.push_back(found->second);
    }
    return list;
  }

  std::vector<std::string> lines_;
  Schedule s_;
  std::map<Identity, SlotId> ids_;
  Problems problems_;
};

}  // namespace

std::string text(const Schedule& s) {
  std::vector<Row> ops = {kOpHeader};
  for (std::size_t i = 0; i < s.ops.size(); ++i) {
    const Op& op = s.ops[i];
    ops.push_back({cat(i), name(op.lane), name(op), names(s, op.reads), names(s, op.writes),
                   names(s, op.births), names(s, op.frees), numbers(op.waits)});
  }
  std::vector<Row> slots = {kSlotHeader};
  for (const Slot& slot : s.slots)
    slots.push_back({name(slot), cat(slot.bytes), permanent(slot) ? "permanent" : cat(slot.offset)});
  return cat(s.kind == StepKind::train ? "train" : "eval", ", arena ", s.arena_bytes, " bytes\n\n",
             table(ops, true), "\n", table(slots, false));
}

Schedule parse(std::string_view text) { return Parser(text).parse(); }

std::string fingerprint(const Schedule& schedule) {
  const std::string bytes = text(schedule);
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace zt::schedule
