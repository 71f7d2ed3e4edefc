#include "cuda_emulator/settings.h"

#include <cstdlib>
#include <string>

#include "cuda_emulator/findings.h"

namespace zt::emulator {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv((std::string("ZEROTRAIN_EMULATOR_") + name).c_str());
  return value == nullptr ? "" : value;
}

long number(const char* name, long otherwise) {
  const std::string text = environment(name);
  if (text.empty()) return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (*end != 0) stop(std::string("ZEROTRAIN_EMULATOR_") + name + " is not a number: " + text, "");
  return value;
}

Policy policy_of(const std::string& text) {
  if (text.empty() || text == "random") return Policy::random;
  if (text == "lazy") return Policy::lazy;
  if (text == "eager") return Policy::eager;
  stop("ZEROTRAIN_EMULATOR_POLICY is none of lazy, eager, random: " + text, "");
}

Order order_of(const std::string& text) {
  if (text.empty() || text == "random") return Order::random;
  if (text == "forward") return Order::forward;
  if (text == "reverse") return Order::reverse;
  stop("ZEROTRAIN_EMULATOR_ORDER is none of forward, reverse, random: " + text, "");
}

Settings read_environment() {
  Settings read;
  read.seed = static_cast<std::uint64_t>(number("SEED", 1));
  read.policy = policy_of(environment("POLICY"));
  read.order = order_of(environment("ORDER"));
  read.check = number("CHECK", 1) != 0;
  read.patience_ms = static_cast<int>(number("HOLD_MS", read.patience_ms));
  read.devices = static_cast<int>(number("DEVICES", read.devices));
  if (read.devices < 0 || read.devices > 16) stop("ZEROTRAIN_EMULATOR_DEVICES must be 0 to 16", "");
  if (const long mebibytes = number("MEMORY_MIB", 0); mebibytes > 0)
    read.device_memory = static_cast<std::size_t>(mebibytes) << 20;
  read.verbose = number("VERBOSE", 0) != 0;
  return read;
}

}  // namespace

Settings& settings() {
  static Settings all = read_environment();
  return all;
}

void set_patience_ms(int milliseconds) { settings().patience_ms = milliseconds; }

}  // namespace zt::emulator
