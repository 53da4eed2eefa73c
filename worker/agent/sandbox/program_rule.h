#pragma once

#include <string>
#include <vector>

// Which programs a worker runs for jobs (dp-worker --allow-program). Uses no library, because
// dp-guard links it. Any thread.

namespace dp::worker {

// Whether the pattern allows the program with this path, which has no links. `*`, `?` and `[...]`
// stand for characters other than /. A pattern that ends with / allows every program below. Pure.
bool AllowsProgram(const std::string& pattern, const std::string& real_path);

// Why text is no pattern; empty: it is one. Pure.
std::string WhyNoProgramPattern(const std::string& text);

// As AllowsProgram by any of the patterns. A pattern may also name the program by a link.
bool IsAllowedProgram(const std::vector<std::string>& patterns, const std::string& real_path);

// The file that exec would run for `name`, searched for in PATH as execvp does, as its path without
// links. On failure returns "" and sets errno.
std::string FindProgram(const std::string& name);

}  // namespace dp::worker
