// A conversation as its row says it, whichever file format it came in.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace zt::text {

enum class Role { system, user, assistant, tool };

struct Message {
  Role role = Role::user;
  std::string content;
  // Of an Alpaca row's instruction only: what the instruction is applied to; "" for none.
  std::string input;
  // Whether the row itself says that this message is trained (its loss weight); absent: data.train_on decides.
  std::optional<bool> trained;
};

struct Conversation {
  std::vector<Message> messages;  // in the order of the row, never paired or reordered
  std::string tools;              // the row's tool definitions as JSON text; "" for none
};

}  // namespace zt::text
