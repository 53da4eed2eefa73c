#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dp/v1/job_spec.pb.h"

namespace dp::ctl {

// How a job should be run whose program starts its processes by itself and lets them meet at a
// store of its own (torch.multiprocessing.spawn with a fixed MASTER_PORT), where its contract makes
// all of them clients of dp's store, so that they wait for ever. Empty: it is no such job, as far
// as `script` shows, the text of its program. Pure.
std::string SpawnRemedy(const v1::JobSpec& spec, absl::string_view script);

// A remedy that is said once, when ranks that run have been silent for long. Time is passed in.
class SilenceAdvice {
 public:
  // With an empty remedy there is nothing to say.
  explicit SilenceAdvice(std::string remedy) : remedy_(std::move(remedy)) {}

  // The ranks run, or one of them wrote: a silence begins.
  void SilentSince(absl::Time now) { since_ = now; }
  // The remedy, where it is to be said now.
  std::optional<std::string> Due(absl::Time now);
  // How long until it would be; infinite where it never will be.
  absl::Duration DueIn(absl::Time now) const;

 private:
  std::string remedy_;  // empty: none, or said
  absl::Time since_ = absl::InfiniteFuture();
};

}  // namespace dp::ctl
