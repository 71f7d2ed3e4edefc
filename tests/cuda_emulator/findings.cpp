#include "cuda_emulator/findings.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "cuda_emulator/emulator.h"
#include "cuda_emulator/settings.h"

namespace zt::emulator {
namespace {

// Exit status of a program that ended with findings nobody took.
constexpr int kUntaken = 97;

struct List {
  std::mutex mutex;
  std::vector<Finding> all;
  std::set<std::string> seen;
};

// Never destroyed: streams may still report while the process ends.
List& list() {
  static List* only = new List;
  return *only;
}

std::string line(const Finding& finding) {
  return finding.kind + ": " + finding.text + (finding.where.empty() ? "" : " (" + finding.where + ")");
}

// A test cannot forget to ask: findings that were not taken fail the program.
__attribute__((destructor)) void require_none() {
  const std::vector<Finding> left = take_findings();
  if (left.empty()) return;
  std::fflush(stdout);
  std::fprintf(stderr, "the emulated GPU has findings that nobody took:\n%s", to_string(left).c_str());
  std::fflush(stderr);
  _exit(kUntaken);
}

}  // namespace

void report(const std::string& kind, const std::string& text, const std::string& where) {
  List& l = list();
  const std::lock_guard lock(l.mutex);
  if (!l.seen.insert(kind + "\n" + (where.empty() ? text : where)).second) return;
  l.all.push_back({kind, text, where});
  if (settings().verbose) std::fprintf(stderr, "finding: %s\n", line(l.all.back()).c_str());
}

void stop(const std::string& why, const std::string& where) {
  std::fflush(stdout);
  std::fprintf(stderr, "the emulated GPU stops: %s%s%s\n", why.c_str(), where.empty() ? "" : ", at ",
               where.c_str());
  std::fflush(stderr);
  std::abort();
}

std::vector<Finding> take_findings() {
  List& l = list();
  const std::lock_guard lock(l.mutex);
  l.seen.clear();
  return std::exchange(l.all, {});
}

std::string to_string(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += line(finding) + "\n";
  return text;
}

}  // namespace zt::emulator
