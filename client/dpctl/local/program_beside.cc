#include "client/dpctl/local/program_beside.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dp::ctl {
namespace {

constexpr size_t kErrorLinesMax = 10;

}  // namespace

absl::StatusOr<std::string> ProgramBeside(const std::string& program) {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / program;
  if (access(path.c_str(), X_OK) == 0) return path.string();
  return absl::FailedPreconditionError(
      absl::StrCat("the program ", path.string(), " is needed, which is not there"));
}

std::string LastLines(const std::string& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back("\n  | " + line);
  const size_t first = lines.size() - std::min(lines.size(), kErrorLinesMax);
  return absl::StrJoin(lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end(), "");
}

}  // namespace dp::ctl
