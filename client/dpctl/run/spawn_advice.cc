#include "client/dpctl/run/spawn_advice.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/job/job_spec.h"

namespace dp::ctl {
namespace {

// Importing torch takes seconds; a program that meets its peers then writes something.
constexpr absl::Duration kSilence = absl::Seconds(10);

bool StartsProcesses(absl::string_view script) {
  return absl::StrContains(script, "mp.spawn(") ||
         absl::StrContains(script, "multiprocessing.spawn(") ||
         absl::StrContains(script, "start_processes(");
}

bool HostsAStore(absl::string_view script) {
  return absl::StrContains(script, "MASTER_PORT") || absl::StrContains(script, "tcp://");
}

}  // namespace

std::string SpawnRemedy(const v1::JobSpec& spec, absl::string_view script) {
  const v1::CommandSpec& command = spec.command();
  if (!MeetsAtStore(command) || command.store() == "program") return "";
  if (!StartsProcesses(script) || !HostsAStore(script)) return "";
  const bool several = spec.ranks() > 1;
  return absl::StrCat(
      "the program starts processes by itself (mp.spawn) and sets where they meet, but store: ",
      command.store(), " makes each of them a client of dp's store, so they may wait for ever; ",
      several ? "run it with one rank, without --nproc-per-node and --nnodes"
              : "leave out --store, or give --store program");
}

std::optional<std::string> SilenceAdvice::Due(absl::Time now) {
  if (DueIn(now) > absl::ZeroDuration()) return std::nullopt;
  return absl::StrCat("no output for ", absl::FormatDuration(kSilence), ": ",
                      std::exchange(remedy_, ""));
}

absl::Duration SilenceAdvice::DueIn(absl::Time now) const {
  if (remedy_.empty() || since_ == absl::InfiniteFuture()) return absl::InfiniteDuration();
  return std::max(since_ + kSilence - now, absl::ZeroDuration());
}

}  // namespace dp::ctl
