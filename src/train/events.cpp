#include "train/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/descriptor.h"
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

// A killed run, or a full disk, may have left half a line, to which the next one must not be added.
bool ends_in_half_a_line(int file) {
  const off_t end = ::lseek(file, 0, SEEK_END);
  char last = '\n';
  return end > 0 && ::pread(file, &last, 1, end - 1) == 1 && last != '\n';
}

// Lines are short: one write brings all of it or, on a full disk, a part; never mixed with another. False with errno
// set where it isn't all there.
bool append(const std::filesystem::path& path, std::string line) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (file.raw() < 0) return false;
  if (line.empty()) return true;
  if (ends_in_half_a_line(file.raw())) line.insert(0, "\n");
  return write_all(file.raw(), line);
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
