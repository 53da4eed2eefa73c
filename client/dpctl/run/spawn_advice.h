#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dp/v1/job_spec.pb.h"

namespace dp::ctl {

// The remedy for a program that starts its processes itself and lets them meet at its own store
// (torch.multiprocessing.spawn with a fixed MASTER_PORT). If the job's contract makes all processes
// clients of dp's store, they wait for ever. Empty if `script`, the text of the program, shows no
// such job. Pure.
std::string SpawnRemedy(const v1::JobSpec& spec, absl::string_view script);

// A remedy that is shown once, when running ranks have been silent for long. Time is passed in.
class SilenceAdvice {
 public:
  // An empty remedy is never due.
  explicit SilenceAdvice(std::string remedy) : remedy_(std::move(remedy)) {}

  // The ranks run, or one of them wrote: a silence begins.
  void SilentSince(absl::Time now) { since_ = now; }
  // The remedy, if it is due now.
  std::optional<std::string> Due(absl::Time now);
  // The time until the remedy is due; infinite if it never will be.
  absl::Duration DueIn(absl::Time now) const;

 private:
  std::string remedy_;  // empty: none, or shown already
  absl::Time since_ = absl::InfiniteFuture();
};

}  // namespace dp::ctl
