// The program's outermost frame: what goes wrong is said once, with whose fault it is, and becomes an exit
// status.
#include <exception>
#include <new>

#include "app/cli.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

int main(int argc, char** argv) {
  try {
    return zt::app::run(argc, argv);
  } catch (const zt::Error& e) {
    zt::log::error(e.what());
    return zt::exit_status(e.blame());
  } catch (const std::bad_alloc&) {
    zt::log::error("out of memory");
    return zt::exit_status(zt::Blame::machine);
  } catch (const std::exception& e) {
    zt::log::error(zt::cat("this is a bug in zerotrain: ", e.what()));
    return zt::exit_status(zt::Blame::bug);
  }
}
