#include "train/shared_preparation.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "support/paths.h"

namespace zt::train {
namespace {

// What is said to stderr while `work` goes on.
template <typename Work>
std::string said_by(const Work& work) {
  const test::ScratchDir scratch;
  const auto path = scratch.path() / "stderr";
  const int before = ::dup(STDERR_FILENO), file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0644);
  ::dup2(file, STDERR_FILENO);
  work();
  ::dup2(before, STDERR_FILENO);
  ::close(before), ::close(file);
  return test::read_file(path);
}

TEST_CASE(
    "waiting for ranks that prepare data: a line every ten seconds, none for a short wait, and one rank "
    "speaks") {
  using Clock = WaitingLines::Clock;
  for (const bool speaks : {true, false}) {
    CAPTURE(speaks);
    WaitingLines lines(speaks);
    const Clock::time_point begin = Clock::now();
    const auto until = [&](double from, double to) {
      return said_by([&] {
        for (double at = from; at < to; at += 0.25)
          lines.tick(begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(at)));
      });
    };
    CHECK(until(0, 10).empty());
    const std::string said = until(10, 35);
    CHECK(std::count(said.begin(), said.end(), '\n') == (speaks ? 3 : 0));
    if (speaks)
      CHECK(said ==
            "waiting for other ranks to finish preparing the data: 10.0 s\n"
            "waiting for other ranks to finish preparing the data: 20.0 s\n"
            "waiting for other ranks to finish preparing the data: 30.0 s\n");
  }
}

}  // namespace
}  // namespace zt::train
