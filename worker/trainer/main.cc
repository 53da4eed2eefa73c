#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/rank.h"
#include "base/version.h"
#include "worker/trainer/rank_program.h"

namespace {

constexpr int kFailed = 1;
constexpr int kBadUsage = 2;

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::printf("%s\n", dp::VersionLine("dp-trainer").c_str());
    return 0;
  }
  const auto environment =
      dp::trainer::ReadEnvironment([](const char* name) { return getenv(name); });
  if (!environment.ok()) {
    const std::string why(environment.status().message());
    std::fprintf(stderr, "dp-trainer: %s\n", why.c_str());
    return kBadUsage;
  }
  const auto end = dp::trainer::RunRank(*environment, dp::Clock::Steady());
  if (end.ok()) {
    return *end == dp::trainer::TrainingEnd::kHandedOver ? dp::kHandedOverExitCode : 0;
  }
  std::fprintf(stderr, "dp-trainer: rank %d: %s\n", environment->rank,
               end.status().ToString(absl::StatusToStringMode::kWithNoExtraData).c_str());
  return kFailed;
}
