#include "worker/trainer/program/trainer_main.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/rank.h"
#include "base/version.h"
#include "client/grpc_log.h"
#include "worker/trainer/checkpoint/remove_files.h"
#include "worker/trainer/inference/inference_program.h"
#include "worker/trainer/program/cuda_driver.h"
#include "worker/trainer/program/rank_program.h"

namespace dp::trainer {
namespace {

constexpr int kFailed = 1;
constexpr int kBadUsage = 2;

// A driver that cannot describe the card is no error here: opening the device shows whether it
// works.
GpuCard CardHere() {
  const absl::StatusOr<CudaDriver> driver = CudaDriver::Load();
  return driver.ok() ? driver->FirstCard().value_or(GpuCard()) : GpuCard();
}

}  // namespace

int RunTrainer(const char* program, int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::printf("%s\n", VersionLine(program).c_str());
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::printf(
        "usage: %s [--help | --version | remove-files JSON | evaluate FILE | predict FILE]\n"
        "One rank of a training job; dp-worker starts it, with the DP_ variables that say what to "
        "train.\n"
        "To train, submit a job: dpctl run job.yaml.\n"
        "remove-files removes the files of a job; 'dpctl rm --with-files' runs it on the hosts "
        "that have some.\n"
        "evaluate and predict carry out a request of 'dpctl eval' and 'dpctl predict'.\n",
        program);
    return 0;
  }
  const std::string_view verb = argc == 3 ? argv[1] : "";
  if (verb == "evaluate" || verb == "predict") return RunInference(program, argv[1], argv[2]);
  if (verb == "remove-files") {
    return RunRemoveFiles(program, argv[2]);
  }
  client::SilenceGrpcLog();
  auto environment = ReadEnvironment([](const char* name) { return getenv(name); });
  if (!environment.ok()) {
    const std::string why(environment.status().message());
    std::fprintf(stderr, "%s: %s\n", program, why.c_str());
    return kBadUsage;
  }
  if (environment->on_gpu) environment->card = CardHere();
  const auto end = RunRank(*environment, Clock::Steady());
  if (end.ok()) return *end == TrainingEnd::kHandedOver ? kHandedOverExitCode : 0;
  std::fprintf(stderr, "%s: rank %d: %s\n", program, environment->rank,
               end.status().ToString(absl::StatusToStringMode::kWithNoExtraData).c_str());
  return LostPeer(end.status()) ? kLostPeersExitCode : kFailed;
}

}  // namespace dp::trainer
