// The program's outermost frame: what goes wrong is said once, with whose fault it is, and becomes an exit
// status.
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>

#include "app/cli.h"
#include "app/fatal.h"
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

int main(int argc, char** argv) {
  limit_spinning(argv);
  zt::app::say_fatal_ends();
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
