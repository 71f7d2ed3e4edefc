#include "app/fatal.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <new>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/job_end.h"

namespace zt::app {
namespace {

struct FatalSignal {
  int number;
  const char* what;
};
constexpr std::array<FatalSignal, 5> kFatalSignals = {{
    {SIGSEGV, "ended by a broken address (SIGSEGV)"},
    {SIGABRT, "ended by abort() (SIGABRT)"},
    {SIGFPE, "ended by an impossible division (SIGFPE)"},
    {SIGILL, "ended by an unknown instruction (SIGILL): was the program built for another processor?"},
    {SIGBUS, "a file was cut while it was read, or its disk failed (SIGBUS)"},
}};

// Only async-signal-safe calls in all that the handler uses.
class Line {
 public:
  void add(const char* text) {
    while (*text != 0 && at_ < end()) *at_++ = *text++;
  }
  void add_self() { at_ = comm::write_self(at_, end()); }
  void print() {
    *at_++ = '\n';
    (void)!::write(STDERR_FILENO, text_.data(), std::size_t(at_ - text_.data()));
  }

 private:
  char* end() { return text_.data() + text_.size() - 1; }
  std::array<char, 512> text_{};
  char* at_ = text_.data();
};

// Whether this thread tells the cause. Another one that ends at the same moment gives it the time to do so.
bool may_speak() {
  static thread_local bool speaks = false;
  if (comm::claim_the_word()) return speaks = true;
  if (!speaks) ::sleep(1);
  return false;
}

void on_fatal(int number) {
  // A file that is cut while it is mapped is not a bug of the program, and leaves a program that can end by itself.
  const bool machine = number == SIGBUS;
  const int status = exit_status(machine ? Blame::machine : Blame::bug);
  if (may_speak()) {
    Line line;
    line.add("error: ");
    line.add_self();
    line.add(std::ranges::find(kFatalSignals, number, &FatalSignal::number)->what);
    line.add(machine ? "\n  hint: start again when nothing writes to the files of the data, the model and "
                       "the token cache"
                     : "\n  hint: a bug, or a fault of the machine; the run goes on from its last checkpoint "
                       "when it is "
                       "started again");
    line.print();
  }
  comm::last_words(status);
  if (machine) ::_exit(status);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// What was thrown, where nobody catches it.
std::string text_of_exception() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
    return "std::terminate() was called";
  } catch (const Error& e) {
    return e.what();
  } catch (const std::bad_alloc&) {
    return "memory ran out";
  } catch (const std::exception& e) {
    return cat("this is a bug in zerotrain: an exception that nobody catches: ", e.what());
  } catch (...) {
    return "this is a bug in zerotrain: an exception that nobody catches";
  }
}

[[noreturn]] void on_terminate() {
  if (may_speak()) {
    std::array<char, 256> self{};
    comm::write_self(self.data(), self.data() + self.size() - 1);
    log::error(cat(self.data(), text_of_exception()));
  }
  comm::last_words(exit_status(Blame::bug));
  std::abort();
}

}  // namespace

void say_fatal_ends() {
  // For a handler on a thread whose own stack is used up.
  static std::array<char, 1 << 16> stack;
  stack_t other = {};
  other.ss_sp = stack.data();
  other.ss_size = stack.size();
  ::sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = on_fatal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (const FatalSignal& signal : kFatalSignals) ::sigaction(signal.number, &action, nullptr);
  std::set_terminate(on_terminate);
}

}  // namespace zt::app
