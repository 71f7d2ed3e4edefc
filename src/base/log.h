// Talk for people. It goes to stderr (results go to stdout) and, once a run folder exists, to its log file
// too.
#pragma once

#include <string>

namespace zt::log {

void info(const std::string& text);
void warn(const std::string& text);
void error(const std::string& text);

// Also append everything from now on to this file. Throws Error(machine) when it can't be opened.
void also_to_file(const std::string& path);
// While a progress bar holds the last terminal line, `clear` wipes it before a message is printed.
void set_line_clearer(void (*clear)());

}  // namespace zt::log
