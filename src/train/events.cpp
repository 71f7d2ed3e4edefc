#include "train/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "measure/machine.h"

namespace zt::train {
namespace {

struct Word {
  EventKind kind;
  const char* word;
};
constexpr Word kWords[] = {{EventKind::start, "start"},
                           {EventKind::resume, "resume"},
                           {EventKind::checkpoint, "checkpoint"},
                           {EventKind::save_requested, "save_requested"},
                           {EventKind::save_failed, "save_failed"},
                           {EventKind::skip, "skip"},
                           {EventKind::spike, "spike"},
                           {EventKind::rewind, "rewind"},
                           {EventKind::stop, "stop"},
                           {EventKind::failed, "failed"},
                           {EventKind::done, "done"}};

// An open file that is closed at the end of its life; -1 where it could not be opened.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// A killed run, or a full disk, may have left half a line, to which the next one must not be added.
bool ends_in_half_a_line(int file) {
  const off_t end = ::lseek(file, 0, SEEK_END);
  char last = '\n';
  return end > 0 && ::pread(file, &last, 1, end - 1) == 1 && last != '\n';
}

// One write, so that a line is there as a whole or, on a full disk, in part; never mixed with another. False with
// errno set where it isn't all there.
bool append(const std::filesystem::path& path, std::string line) {
  const Descriptor file(path, O_RDWR | O_APPEND | O_CREAT);
  if (file.number() < 0) return false;
  if (line.empty()) return true;
  if (ends_in_half_a_line(file.number())) line.insert(0, "\n");
  const ssize_t written = ::write(file.number(), line.data(), line.size());
  if (written >= 0 && static_cast<std::size_t>(written) < line.size()) errno = ENOSPC;
  return written == static_cast<ssize_t>(line.size());
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

const char* word(EventKind kind) {
  for (const Word& entry : kWords)
    if (entry.kind == kind) return entry.word;
  throw Error(Blame::bug, "an event of no kind");
}

Events::Events(std::filesystem::path path) : path_(std::move(path)) {
  if (!append(path_, ""))
    throw Error(Blame::machine, cat("cannot write ", path_.string(), ": ", std::strerror(errno)),
                "is the folder writable, and is there space on the disk?");
}

void Events::note(EventKind kind, std::int64_t step, const std::string& text,
                  const nlohmann::ordered_json& more) {
  nlohmann::ordered_json line;
  line["time"] = measure::utc_text(now());
  line["step"] = step;
  line["event"] = word(kind);
  line["text"] = text;
  for (const auto& [name, value] : more.items()) line[name] = value;
  if (append(path_, line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"))
    return;
  if (!std::exchange(warned_, true))
    log::warn(
        cat("cannot write ", path_.string(), ": ", std::strerror(errno), "; the run goes on without it"));
}

}  // namespace zt::train
