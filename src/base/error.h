// Errors say whose fault it is, what happened with numbers, and what to do next.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace zt {

// Whose fault an error is. Each blame has a fixed exit status, part of the user interface.
enum class Blame {
  usage,    // the command line or the recipe (2)
  data,     // data files (3)
  model,    // a model folder or checkpoint (4)
  numbers,  // not finite, diverged (5)
  peer,     // another rank or the network (6)
  machine,  // memory or disk (7)
  bug,      // ours (70)
};

int exit_status(Blame blame);
const char* name(Blame blame);

// `what()` is the full text: the problem, and a line "hint: ..." when there is one.
class Error : public std::runtime_error {
 public:
  Error(Blame blame, const std::string& problem, const std::string& hint = "");
  Blame blame() const { return blame_; }
  const std::string& problem() const { return problem_; }
  const std::string& hint() const { return hint_; }

 private:
  Blame blame_;
  std::string problem_, hint_;
};

// Collects all faults of one input, so that a person can mend them in one go.
class Problems {
 public:
  void add(std::string problem) { list_.push_back(std::move(problem)); }
  bool empty() const { return list_.empty(); }
  const std::vector<std::string>& list() const { return list_; }
  // Throws one Error that lists every problem under `title`, if there is any.
  void throw_if_any(Blame blame, const std::string& title, const std::string& hint = "") const;

 private:
  std::vector<std::string> list_;
};

}  // namespace zt
