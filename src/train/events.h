// What happened to a run besides its steps, one JSON object a line: starts, checkpoints, skipped steps, the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace zt::train {

// The kinds of events; their words are the file's. See docs/formats/run_folder.md.
enum class EventKind {
  start,
  resume,
  checkpoint,
  save_requested,
  save_failed,
  skip,
  spike,
  rewind,
  stop,
  failed,
  done
};
const char* word(EventKind kind);

class Events {
 public:
  // Appends, also after a run that was killed in the middle of a line. Throws Error(machine) when the file can't be
  // opened.
  explicit Events(std::filesystem::path path);

  // `text` is for people; `more` are members for programs. A line is written at once and as a whole: a killed run keeps
  // what it noted. A disk that takes no more is warned of once and ends nothing, for the run itself is not in danger.
  void note(EventKind kind, std::int64_t step, const std::string& text,
            const nlohmann::ordered_json& more = nlohmann::ordered_json::object());

 private:
  std::filesystem::path path_;
  bool warned_ = false;
};

}  // namespace zt::train
