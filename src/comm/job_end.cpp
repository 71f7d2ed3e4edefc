#include "comm/job_end.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "comm/ranks.h"

namespace zt::comm {
namespace {

// How long MPI_Abort and the launcher may take; then they are ended.
constexpr int kPatienceSeconds = 10;

std::atomic<bool> ending{false}, ended_here{false};
std::atomic<void (*)(int)> teller{nullptr};
std::atomic<int> exit_with{1};
std::atomic<int> process_rank{0};
std::atomic<const Ledger*> process_ledger{nullptr};
thread_local int thread_rank = 0;
thread_local const Ledger* thread_ledger = nullptr;

// Everything down to find_launcher is also used after _Fork: only async-signal-safe calls, no memory.

void sleep_ms(int ms) {
  timespec left{ms / 1000, (ms % 1000) * 1000000L};
  while (::nanosleep(&left, &left) != 0) {
  }
}

// "/proc/" id, then `rest`.
struct ProcPath {
  std::array<char, 96> text{};
  ProcPath(int id, const char* rest) {
    char* at = std::copy_n("/proc/", 6, text.data());
    at = put(at, id);
    std::copy_n(rest, std::strlen(rest) + 1, at);
  }
  static char* put(char* at, int number) {
    std::array<char, 12> digits{};
    std::size_t n = 0;
    do digits[n++] = char('0' + number % 10);
    while ((number /= 10) > 0);
    while (n > 0) *at++ = digits[--n];
    return at;
  }
};

template <std::size_t N>
std::string_view read_into(const ProcPath& path, std::array<char, N>& buffer) {
  const int file = ::open(path.text.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t n = ::read(file, buffer.data(), N);
  ::close(file);
  return {buffer.data(), std::size_t(std::max<ssize_t>(n, 0))};
}

// Takes a word off the front.
std::string_view take_word(std::string_view& text) {
  const std::size_t first = std::min(text.find_first_not_of(" \n"), text.size());
  text.remove_prefix(first);
  const std::string_view word = text.substr(0, text.find_first_of(" \n"));
  text.remove_prefix(word.size());
  return word;
}

std::int64_t number_in(std::string_view word) {
  std::int64_t number = 0;
  for (const char c : word)
    if (c >= '0' && c <= '9') number = number * 10 + (c - '0');
  return number;
}

struct Stat {
  char state = 0;
  int parent = 0;
  std::int64_t started = 0;
};

// Fields 3, 4 and 22; the second is the name in parentheses, which may hold anything.
Stat stat_of(int id) {
  std::array<char, 1024> buffer{};
  std::string_view text = read_into(ProcPath(id, "/stat"), buffer);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return {};
  text.remove_prefix(name_end + 1);
  Stat stat;
  const std::string_view state = take_word(text);
  stat.state = state.empty() ? '\0' : state[0];
  stat.parent = int(number_in(take_word(text)));
  for (int field = 5; field < 22; ++field) take_word(text);
  stat.started = number_in(take_word(text));
  return stat;
}

// What a process has started and not yet lost.
struct Children {
  std::array<Process, 256> list{};
  std::size_t count = 0;
  explicit Children(int parent) {
    std::array<char, 4096> buffer{};
    ProcPath path(parent, "/task/");
    char* const at = ProcPath::put(path.text.data() + std::strlen(path.text.data()), parent);
    std::copy_n("/children", 10, at);
    std::string_view text = read_into(path, buffer);
    for (std::string_view word = take_word(text); !word.empty() && count < list.size();
         word = take_word(text))
      list[count++] = process_of(int(number_in(word)));
  }
  void kill() const {
    for (std::size_t i = 0; i < count; ++i)
      if (state_of(list[i]) != 0) ::kill(list[i].id, SIGKILL);
  }
};

bool ends_within(const Process& process, int seconds) {
  constexpr int kLook = 100;
  for (int waited = 0; waited < seconds * 1000; waited += kLook) {
    if (state_of(process) == 0) return true;
    sleep_ms(kLook);
  }
  return state_of(process) == 0;
}

// The ranks on this node and the connections to other nodes are the launcher's children. No SIGTERM: a mpirun that waits
// for a lost node ignores it, or breaks down over it.
void see_end_of(const Process& launcher) {
  if (ends_within(launcher, kPatienceSeconds)) return;
  const Children children(launcher.id);
  if (state_of(launcher) != 0) ::kill(launcher.id, SIGKILL);
  children.kill();
}

// A process of its own session, because the launcher ends this one and its group before it ends itself. _Fork leaves
// the handlers out that MPI has for fork.
void guard(const Process& launcher) {
  if (launcher.id == 0 || ::_Fork() != 0) return;
  ::setsid();
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
  // The launcher waits until nobody holds the other end of its pipes.
  if (::syscall(SYS_close_range, 0U, ~0U, 0U) != 0)
    for (int file = 0; file < 4096; ++file) ::close(file);
  see_end_of(launcher);
  ::_exit(0);
}

void on_alarm(int /*signal*/) { ::_exit(exit_with); }

// This process ends in some seconds, whatever MPI_Abort does.
void set_own_end(int status) {
  exit_with = status;
  struct sigaction action = {};
  action.sa_handler = on_alarm;
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  ::alarm(kPatienceSeconds);
}

bool mpi_runs() {
  int started = 0, finished = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&finished);
  return started != 0 && finished == 0;
}

}  // namespace

Process process_of(int id) {
  const Stat stat = stat_of(id);
  return {stat.state == 0 ? 0 : id, stat.started};
}

char state_of(const Process& process) {
  const Stat stat = stat_of(process.id);
  const bool same = process.id != 0 && stat.state != 0 && stat.started == process.started;
  return same && stat.state != 'Z' && stat.state != 'X' ? stat.state : '\0';
}

// Users may have put a script or another tool between the launcher and the ranks.
Process find_launcher() {
  constexpr std::array<std::string_view, 6> kNames = {"mpirun",  "mpiexec", "orterun",
                                                      "prterun", "orted",   "prted"};
  constexpr int kGenerations = 8;
  int id = ::getppid();
  for (int i = 0; i < kGenerations && id > 1; ++i) {
    std::array<char, 64> buffer{};
    std::string_view text = read_into(ProcPath(id, "/comm"), buffer);
    if (std::ranges::find(kNames, take_word(text)) != kNames.end()) return process_of(id);
    id = stat_of(id).parent;
  }
  return {};
}

void this_process_is(int rank, const Ledger* ledger) {
  process_rank = rank;
  process_ledger = ledger;
}

void this_thread_is(int rank, const Ledger* ledger) {
  thread_rank = rank;
  thread_ledger = ledger;
}

char* write_self(char* to, char* end) {
  const Ledger* const ledger = thread_ledger != nullptr ? thread_ledger : process_ledger.load();
  if (ledger == nullptr || end - to < 32) return to;
  to = std::copy_n("rank ", 5, to);
  to = ProcPath::put(to, thread_ledger != nullptr ? thread_rank : process_rank.load());
  char* const place = std::copy_n(", ", 2, to);
  char* const after = write_place(*ledger, place, end - 2);
  return std::copy_n(": ", 2, after == place ? to : after);
}

void tell_ends_to(void (*to)(int status)) { teller = to; }

void last_words(int status) {
  ending = true;
  if (void (*const tell)(int) = teller) tell(status);
}

bool job_is_ending() { return ending; }
void note_job_is_ending() { ending = true; }
bool claim_the_word() { return !ending.exchange(true); }

void end_job(int status) {
  if (ended_here.exchange(true))
    for (;;) ::pause();
  last_words(status);
  set_own_end(status);
  guard(find_launcher());
  if (mpi_runs()) MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace zt::comm
