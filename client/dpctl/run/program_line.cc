#include "client/dpctl/run/program_line.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/limits.h"

namespace dp::ctl {
namespace {

constexpr char kScriptSuffix[] = ".py";

bool IsPython(const std::string& program) {
  return absl::StartsWith(std::filesystem::path(program).filename().string(), "python");
}

// Flags of python that take the next word as their value.
bool TakesNextWord(const std::string& flag) { return flag == "-W" || flag == "-X"; }

}  // namespace

absl::StatusOr<std::vector<std::string>> RankArgv(const std::vector<std::string>& words,
                                                  const Launcher& launcher) {
  if (launcher.module && launcher.no_python)
    return absl::InvalidArgumentError(
        "--module runs python and --no-python does not; give one of them");
  const bool script = launcher.always_python || IsScript(words.front());
  if (launcher.no_python || (!launcher.module && !script)) return words;
  std::vector<std::string> argv = {launcher.python, "-u"};
  if (launcher.module) argv.push_back("-m");
  argv.insert(argv.end(), words.begin(), words.end());
  return argv;
}

size_t ScriptIn(const std::vector<std::string>& argv) {
  if (!IsPython(argv.front())) return 0;
  for (size_t i = 1; i < argv.size(); ++i) {
    if (argv[i] == "-m" && i + 1 < argv.size()) return i + 1;
    if (argv[i] == "-c") return 0;
    if (!absl::StartsWith(argv[i], "-")) return i;
    if (TakesNextWord(argv[i])) ++i;
  }
  return 0;
}

bool IsScript(absl::string_view word) { return absl::EndsWith(word, kScriptSuffix); }

std::string LocalRankFlag(absl::string_view text) {
  const bool underscore = absl::StrContains(text, "--local_rank");
  return underscore && !absl::StrContains(text, "--local-rank") ? "--local_rank" : "--local-rank";
}

std::string NameAfter(const std::vector<std::string>& argv) {
  std::string name;
  for (const char c : std::filesystem::path(argv[ScriptIn(argv)]).stem().string()) {
    const char lower = absl::ascii_tolower(c);
    const bool good = absl::ascii_isalnum(lower);
    if (good) name += lower;
    if (!good && !name.empty() && name.back() != '-') name += '-';
  }
  name.resize(std::min<size_t>(name.size(), kJobNameBytesMax));
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "command" : name;
}

}  // namespace dp::ctl
