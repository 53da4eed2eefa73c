#include "worker/agent/cuda_trainer.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "worker/agent/processes/run_program.h"

namespace dp::worker {
namespace {

// The lines of the output that name missing parts; all lines if there are none, as when the loader
// could not start the program.
std::string MissingIn(const std::string& output) {
  const std::vector<std::string> lines = absl::StrSplit(output, '\n', absl::SkipWhitespace());
  std::vector<std::string> missing;
  for (const std::string& line : lines) {
    if (absl::StrContains(line, ": missing: ")) missing.push_back(line);
  }
  return absl::StrJoin(missing.empty() ? lines : missing, "; ");
}

std::string WhyNotUsable(const std::string& path, absl::Duration patience) {
  const absl::StatusOr<ProgramEnd> end = RunProgram({path, "--self-check"}, patience);
  if (!end.ok()) return std::string(end.status().message());
  if (end->exit_code == 0) return "";
  const std::string how =
      end->exit_code.has_value()
          ? absl::StrCat("fails with exit code ", *end->exit_code)
          : absl::StrCat("was killed, after ", absl::FormatDuration(patience), " at the latest");
  const std::string missing = MissingIn(end->output);
  return absl::StrCat("its self-check ", how, missing.empty() ? "" : ": ", missing);
}

}  // namespace

CudaTrainer FindCudaTrainer(const std::string& trainer, absl::Duration patience) {
  const std::string path = std::filesystem::path(trainer).replace_filename("dp-trainer-cuda");
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return {.path = "",
            .why_not = absl::StrCat(path,
                                    " does not exist: it is built where CUDA's toolkit is; "
                                    "install a dp that has it")};
  }
  const std::string why_not = WhyNotUsable(path, patience);
  if (why_not.empty()) return {.path = path, .why_not = ""};
  return {.path = "",
          .why_not = std::string(Utf8Prefix(absl::StrCat(path, ": ", why_not), kLastLineBytesMax))};
}

}  // namespace dp::worker
