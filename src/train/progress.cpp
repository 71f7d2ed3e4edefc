#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "base/text.h"

namespace zt::train {
namespace {

void clear_bar_line() {
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

int terminal_width() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string numbers(const StepMetrics& m) {
  return fmt::format("loss {:.4f}  {} tok/s  MFU {:.0f} %", m.loss,
                     with_commas(std::int64_t(m.tokens_per_second)), 100 * m.mfu);
}

}  // namespace

std::string bar_line(const StepMetrics& m, std::int64_t max_steps, double seconds_left, int width) {
  const std::string tail =
      fmt::format(" {}/{}  {}  {} left", m.step, max_steps, numbers(m), human_seconds(seconds_left));
  const int room = width - static_cast<int>(tail.size()) - 2;
  if (room < 5) return tail.substr(1, static_cast<std::size_t>(std::max(0, width - 1)));
  const auto done = static_cast<int>(room * m.step / std::max<std::int64_t>(1, max_steps));
  std::string bar(static_cast<std::size_t>(done), '=');
  bar.resize(static_cast<std::size_t>(room), ' ');
  if (done < room) bar[static_cast<std::size_t>(done)] = '>';
  return "[" + bar + "]" + tail;
}

Progress::Progress(recipe::Progress kind, std::int64_t max_steps, std::int64_t first_step)
    : max_steps_(max_steps), first_step_(first_step) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  bar_ = kind == recipe::Progress::bar || (kind == recipe::Progress::automatic && terminal);
  lines_ = kind == recipe::Progress::lines || (kind == recipe::Progress::automatic && !terminal);
  if (bar_) log::set_line_clearer(clear_bar_line);
}

Progress::~Progress() {
  if (!bar_) return;
  log::set_line_clearer(nullptr);
  clear_bar_line();
}

double Progress::seconds_left(std::int64_t step) const {
  const double so_far = std::chrono::duration<double>(Clock::now() - start_).count();
  const std::int64_t done = step - first_step_;
  return done > 0 ? so_far / static_cast<double>(done) * static_cast<double>(max_steps_ - step) : 0;
}

void Progress::step(const StepMetrics& m) {
  const bool last = m.step == max_steps_;
  const auto now = Clock::now();
  // A bar is redrawn ten times a second at most; lines come once in two seconds, so that short steps don't
  // flood a log.
  if (!last && now - last_ < (bar_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(2000)))
    return;
  last_ = now;
  const double left = seconds_left(m.step);
  if (bar_) {
    std::fprintf(stderr, "\r\x1b[K%s", bar_line(m, max_steps_, left, terminal_width() - 1).c_str());
    std::fflush(stderr);
  } else if (lines_) {
    log::info(fmt::format("step {}/{}  {}  lr {:.3g}  norm {:.3f}  {} left", m.step, max_steps_, numbers(m),
                          m.learning_rate, m.grad_norm, human_seconds(left)));
  }
}

void Progress::evaluation(std::int64_t step, double loss, std::int64_t tokens) {
  if (bar_ || lines_)
    log::info(fmt::format("step {}: validation loss {:.4f} over {} tokens", step, loss, with_commas(tokens)));
}

}  // namespace zt::train
