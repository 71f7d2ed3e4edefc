// What the fields of each format are called and what they may hold: the one table that reading, faults and the
// manual walk.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/settings.h"
#include "text/conversation.h"

namespace zt::data {

// What it means that a field isn't there, is null, or is empty.
enum class Meaning {
  none,   // there is nothing of this kind
  fault,  // the row is at fault
  kept,   // an empty text
  by_role,  // a fault of a user's or an assistant's turn; a tool may return nothing; an empty system prompt is none
};

// Where a field stands.
enum class Scope { row, message };

struct Field {
  recipe::Format format;
  Scope scope;
  const char* name;
  std::vector<const char*> others;  // names it may have as well, where only one of them is there
  const char* holds;
  Meaning absent, null, empty;
};

std::span<const Field> all_fields();
const Field& field_of(recipe::Format format, std::string_view name);

// The name of another format whose rows have these keys, all that they can't be without; null for none.
const char* likely_format(const std::vector<std::string>& keys, recipe::Format not_this);

// A member that would be lost if it were passed over in silence: refused unless it is null, false or empty.
struct RefusedMember {
  Scope scope;
  const char* name;
  const char* cure;
};
std::span<const RefusedMember> refused_members();

// The role that a name of the files stands for, in small or capital letters; nothing for unknown names.
std::optional<text::Role> role_of(std::string_view name);
// "system (also developer), user (also ...)".
std::string known_roles();

}  // namespace zt::data
