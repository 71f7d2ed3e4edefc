#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/error.h"

namespace zt::log {
namespace {

void (*line_clearer)() = nullptr;

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    sink->set_pattern("%v");
    return spdlog::logger("zerotrain", sink);
  }();
  return instance;
}

void say(spdlog::level::level_enum level, const std::string& text) {
  if (line_clearer != nullptr) line_clearer();
  logger().log(level, text);
  logger().flush();
}

}  // namespace

void info(const std::string& text) { say(spdlog::level::info, text); }
void warn(const std::string& text) { say(spdlog::level::warn, "warning: " + text); }
void error(const std::string& text) { say(spdlog::level::err, "error: " + text); }

void also_to_file(const std::string& path) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    sink->set_pattern("%Y-%m-%dT%H:%M:%S %v");
    logger().sinks().push_back(sink);
  } catch (const spdlog::spdlog_ex& e) {
    throw Error(Blame::machine, e.what(), "is the folder writable, and is there space on the disk?");
  }
}

void set_line_clearer(void (*clear)()) { line_clearer = clear; }

}  // namespace zt::log
