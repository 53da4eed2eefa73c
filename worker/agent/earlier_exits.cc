#include "worker/agent/earlier_exits.h"

#include <algorithm>
#include <optional>

#include "worker/agent/processes/exit_record.h"
#include "worker/agent/rank_report.h"
#include "worker/agent/spool/log_spool.h"

namespace dp::worker {
namespace {

struct EarlierExit {
  RankKey key;
  SpoolOwner owner;
  ExitRecord record;
};

std::optional<EarlierExit> Read(const LogSpool& spool, const RankKey& key) {
  const std::optional<ExitRecord> record = ReadExitRecord(spool.exit_file());
  if (!record) return std::nullopt;
  const std::optional<SpoolOwner> owner = spool.owner();
  if (!owner || !owner->session.incarnation.valid()) return std::nullopt;
  return EarlierExit{key, *owner, *record};
}

v1::ReportRankRequest ReportOf(const EarlierExit& exit, std::vector<std::string> last_lines) {
  Process process{.phase = Process::Phase::kGone,
                  .job_submitted_at = exit.owner.job_submitted_at,
                  .exit = exit.record.exit,
                  .last_lines = std::move(last_lines),
                  .oom = exit.record.oom};
  if (exit.record.stopped) process.terminated_at = absl::FromUnixNanos(exit.record.at_unix_nanos);
  return RequestFor({exit.key, Milestone::kExited}, process, exit.owner.session);
}

}  // namespace

std::vector<v1::ReportRankRequest> EarlierExits(const std::string& state_dir,
                                                const std::vector<RankKey>& ranks) {
  std::vector<EarlierExit> exits;
  for (const RankKey& key : ranks) {
    if (auto exit = Read(LogSpool(state_dir, key), key)) exits.push_back(*std::move(exit));
  }
  std::stable_sort(exits.begin(), exits.end(), [](const EarlierExit& a, const EarlierExit& b) {
    return a.record.at_unix_nanos < b.record.at_unix_nanos;
  });
  std::vector<v1::ReportRankRequest> reports;
  for (const EarlierExit& exit : exits) {
    reports.push_back(ReportOf(exit, LogSpool(state_dir, exit.key).LastLines()));
  }
  return reports;
}

}  // namespace dp::worker
