#include "base/error.h"

#include "base/plain_text.h"

namespace zt {

int exit_status(Blame blame) {
  switch (blame) {
    case Blame::usage: return 2;
    case Blame::data: return 3;
    case Blame::model: return 4;
    case Blame::numbers: return 5;
    case Blame::peer: return 6;
    case Blame::machine: return 7;
    case Blame::bug: return 70;
  }
  return 70;
}

const char* name(Blame blame) {
  switch (blame) {
    case Blame::usage: return "usage or recipe";
    case Blame::data: return "data";
    case Blame::model: return "model or checkpoint";
    case Blame::numbers: return "numbers";
    case Blame::peer: return "a peer or the network";
    case Blame::machine: return "memory or disk";
    case Blame::bug: return "a bug in zerotrain";
  }
  return "a bug in zerotrain";
}

static std::string full_text(const std::string& problem, const std::string& hint) {
  return hint.empty() ? problem : problem + "\n  hint: " + hint;
}

// Problems quote what files hold.
Error::Error(Blame blame, const std::string& problem, const std::string& hint)
    : std::runtime_error(full_text(plain_text(problem), plain_text(hint))),
      blame_(blame),
      problem_(plain_text(problem)),
      hint_(plain_text(hint)) {}

void Problems::throw_if_any(Blame blame, const std::string& title, const std::string& hint) const {
  if (list_.empty()) return;
  std::string text = title;
  for (const std::string& problem : list_) text += "\n  " + problem;
  throw Error(blame, text, hint);
}

}  // namespace zt
