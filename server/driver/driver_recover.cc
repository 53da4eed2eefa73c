// The driver before its thread starts: it replays the journal, checks it against the logs on disk,
// and begins an epoch.

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/status.h"
#include "server/driver/driver.h"

namespace dp::server {
namespace {

// Synchronized clocks of hosts differ by less.
constexpr absl::Duration kClockSlack = absl::Seconds(1);

}  // namespace

absl::Status Driver::Recover() {
  size_t replayed = 0;
  absl::Status refused;
  const auto restore = [&](core::State state) {
    now_ = std::max(now_, state.at);
    coordinator_ = core::Coordinator(std::move(state));
  };
  const auto apply = [&](const core::Command& command) {
    now_ = std::max(now_, command.at);
    const core::Outcome outcome = coordinator_.Apply(command);  // answered in an earlier run
    if (!outcome.journal && refused.ok()) {
      refused = absl::DataLossError(
          absl::StrCat("record ", replayed, " of the journal is refused by this release (",
                       outcome.status.ToString(), "); start the release that wrote it"));
    }
    ++replayed;
  };
  DP_RETURN_IF_ERROR(journal_.Replay(restore, apply));
  DP_RETURN_IF_ERROR(refused);
  DP_RETURN_IF_ERROR(options_.set_logs_aside ? SetLostLogsAside() : CheckLogsAreOurs());
  // Skips lost jobs: their logs were set aside, and new jobs get their numbers.
  for (const JobId job : options_.logged) {
    const bool lost = job.value() > coordinator_.state().jobs.last_id();
    if (!lost && coordinator_.job(job) == nullptr) forgotten_.push_back(job);
  }
  CatchUpWithTheJournal();
  (void)Apply(core::StartEpoch{options_.store_limits});  // never rejected
  for (const core::Worker* worker : coordinator_.workers()) {
    if (!worker->ready()) continue;
    liveness_.Expect(worker->id, worker->incarnation, now_);
    if (worker->leaving) liveness_.Leave(worker->id);
  }
  ApplyVerdicts();
  DP_RETURN_IF_ERROR(Persist());
  changed_.clear();
  Log(Severity::kInfo, "epoch_started",
      {{"epoch", coordinator_.epoch().value()},
       {"revision", coordinator_.revision().value()},
       {"replayed", replayed}});
  return absl::OkStatus();
}

void Driver::CatchUpWithTheJournal() {
  behind_ = std::max(absl::ZeroDuration(), now_ - clock_.Now());
  now_ = Now();
  if (behind_ < kClockSlack) return;
  Log(Severity::kWarning, "clock_is_behind", {{"by", absl::FormatDuration(behind_)}});
}

// Rejects a journal that does not know a job with logs. Nothing is logged of a job before it is on
// record. The journal is therefore new or has lost its end, and the job was not forgotten.
absl::Status Driver::CheckLogsAreOurs() const {
  if (options_.logged.empty()) return absl::OkStatus();
  const JobId last = *absl::c_max_element(options_.logged);
  const uint64_t known = coordinator_.state().jobs.last_id();
  if (coordinator_.epoch().valid() && last.value() > known) {
    return absl::DataLossError(absl::StrCat(
        "there are logs of job ", last.ToString(), ", but the journal knows jobs up to ", known,
        " only: it has lost its end, or is an older copy; nothing was removed. Restore the whole "
        "data directory from a backup, or start with --accept-data-loss to go on without the jobs "
        "in between"));
  }
  if (coordinator_.epoch().valid()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the journal is new, but there are logs of jobs (", options_.logged.size(),
      "), of which nothing was removed; restore the data directory from a backup, start with an "
      "empty one by --data-dir, or with --accept-data-loss to go on without these jobs"));
}

// New jobs get the numbers of the lost ones.
absl::Status Driver::SetLostLogsAside() {
  std::vector<JobId> lost;
  for (const JobId job : options_.logged) {
    if (job.value() > coordinator_.state().jobs.last_id()) lost.push_back(job);
  }
  return lost.empty() ? absl::OkStatus() : options_.set_logs_aside(lost);
}

}  // namespace dp::server
