// The program's outermost frame: what goes wrong is said once, with whose fault it is, and becomes an exit
// status.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>

#include "app/cli.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

// OpenMP threads that wait at a barrier spin for milliseconds by default; as soon as another process wants
// one of the cores, a step of many short loops then runs up to 70 times slower. Spinning for some
// microseconds costs nothing on an idle machine. libgomp reads the setting before main() begins, so the
// program starts itself again with it.
static void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", "5000", 0);
  ::execv("/proc/self/exe", argv);  // returns only where it is not possible; then the default has to do
}

// A mapped file that is cut while it is read ends a program without a word. Only async-signal-safe calls here.
static void on_lost_page(int /*signal*/) {
  constexpr char text[] =
      "error: a file was cut while it was read, or its disk failed\n"
      "  hint: start again when nothing writes to the files of the data, the model and the token cache\n";
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text, sizeof text - 1);
  ::_exit(zt::exit_status(zt::Blame::machine));
}

int main(int argc, char** argv) {
  limit_spinning(argv);
  struct sigaction lost_page = {};
  lost_page.sa_handler = on_lost_page;
  ::sigaction(SIGBUS, &lost_page, nullptr);
  try {
    return zt::app::run(argc, argv);
  } catch (const zt::Error& e) {
    zt::log::error(e.what());
    return zt::exit_status(e.blame());
  } catch (const std::bad_alloc&) {
    zt::log::error("out of memory");
    return zt::exit_status(zt::Blame::machine);
  } catch (const std::filesystem::filesystem_error& e) {
    zt::log::error(e.what());
    return zt::exit_status(zt::Blame::machine);
  } catch (const std::exception& e) {
    zt::log::error(zt::cat("this is a bug in zerotrain: ", e.what()));
    return zt::exit_status(zt::Blame::bug);
  }
}
