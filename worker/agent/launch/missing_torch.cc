#include "worker/agent/launch/missing_torch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dp::worker {
namespace {

constexpr char kPath[] = "PATH=";
// Python's message, also for a part of the module (torch.distributed), but not for torchvision.
constexpr const char* kMissing[] = {"ModuleNotFoundError: No module named 'torch'",
                                    "ModuleNotFoundError: No module named 'torch."};
constexpr char kRemedy[] =
    "; name one that has it, as in PYTHON_EXEC=/path/to/python3 dpctl run train.py, or pass on the "
    "environment that dpctl runs in, with --env-from-here";

// A directory may be executable, too.
bool CanBeRun(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string PathOf(const TorchlessProgram& program) {
  if (absl::StrContains(program.name, '/')) return program.name;
  const auto path =
      std::find_if(program.environment.begin(), program.environment.end(),
                   [](const auto& variable) { return absl::StartsWith(variable, kPath); });
  if (path == program.environment.end()) return program.name;
  for (const absl::string_view dir : absl::StrSplit(path->substr(sizeof(kPath) - 1), ':')) {
    const std::string found = absl::StrCat(dir, dir.empty() ? "" : "/", program.name);
    if (CanBeRun(found)) return found;
  }
  return program.name;
}

bool LacksTorch(const std::vector<std::string>& last_lines) {
  return std::any_of(last_lines.begin(), last_lines.end(), [](const std::string& line) {
    return absl::StrContains(line, kMissing[0]) || absl::StrContains(line, kMissing[1]);
  });
}

std::string WhyNoTorch(const std::string& program) {
  const absl::string_view name = absl::string_view(program).substr(program.rfind('/') + 1);
  const std::string python = absl::StartsWith(name, "python")
                                 ? program
                                 : absl::StrCat("the Python that ", program, " ran");
  return absl::StrCat("dp: ", python, " has no module torch", kRemedy);
}

}  // namespace dp::worker
