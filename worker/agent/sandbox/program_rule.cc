#include "worker/agent/sandbox/program_rule.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <sstream>

namespace dp::worker {
namespace {

// Where execvp looks without the variable PATH.
constexpr char kDefaultPath[] = "/bin:/usr/bin";

// On failure returns "" and sets errno.
std::string RealProgram(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), free);
  if (real == nullptr) return "";
  struct stat found {};
  if (stat(real.get(), &found) != 0 || faccessat(AT_FDCWD, real.get(), X_OK, AT_EACCESS) != 0) {
    return "";
  }
  if (S_ISREG(found.st_mode)) return real.get();
  errno = EACCES;
  return "";
}

bool MeansNoFile(int error) { return error == ENOENT || error == ENOTDIR || error == EACCES; }

}  // namespace

bool AllowsProgram(const std::string& pattern, const std::string& real_path) {
  if (pattern.ends_with('/')) {
    // As many components of the path as the pattern has.
    const auto slashes = std::count(pattern.begin(), pattern.end(), '/');
    size_t end = 0;
    for (auto left = slashes; left > 0; --left, ++end) {
      end = real_path.find('/', end);
      if (end == real_path.npos) return false;
    }
    return fnmatch(pattern.c_str(), real_path.substr(0, end).c_str(), FNM_PATHNAME) == 0;
  }
  return fnmatch(pattern.c_str(), real_path.c_str(), FNM_PATHNAME) == 0;
}

std::string WhyNoProgramPattern(const std::string& text) {
  if (text.starts_with('/') && text.find('\0') == text.npos) return "";
  return "'" + text +
         "' is no pattern of programs; use a path that begins with /, as /usr/bin/python3*";
}

bool IsAllowedProgram(const std::vector<std::string>& patterns, const std::string& real_path) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return AllowsProgram(pattern, real_path) || RealProgram(pattern) == real_path;
  });
}

std::string FindProgram(const std::string& name) {
  if (name.find('/') != name.npos) return RealProgram(name);
  int error = ENOENT;
  const char* variable = getenv("PATH");
  std::istringstream directories(variable == nullptr ? kDefaultPath : variable);
  for (std::string directory; !name.empty() && std::getline(directories, directory, ':');) {
    // An empty entry is the working directory.
    const std::string found = RealProgram((directory.empty() ? "." : directory) + "/" + name);
    if (!found.empty()) return found;
    if (errno == EACCES) error = EACCES;
    if (!MeansNoFile(errno)) break;
  }
  errno = error;
  return "";
}

}  // namespace dp::worker
