#include "client/dpctl/run/follower.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/outstanding_output.h"
#include "client/dpctl/view/printable.h"

namespace dp::ctl {

absl::StatusOr<v1::Job> Follower::Run() {
  const auto show = [this](const v1::Job& job) { return ShowWaiting(job); };
  DP_ASSIGN_OR_RETURN(seen_,
                      AwaitJob(context_, job_, patience_, absl::InfiniteDuration(), show, seen_));
  const absl::Status shown = ShowLogs();
  screen_.Bar("");
  screen_.EndLine();
  DP_RETURN_IF_ERROR(shown);
  if (!out_.good()) return GetJob(context_, job_);
  const auto any_change = [](const v1::Job&) { return true; };
  DP_ASSIGN_OR_RETURN(v1::Job job, AwaitJob(context_, job_, patience_, absl::InfiniteDuration(),
                                            any_change, seen_));
  ShowRestarts(job);
  WarnOfOutstanding(job_, job.generation(), reader_->last(), context_.err());
  return job;
}

bool Follower::ShowWaiting(const v1::Job& job) {
  ShowRestarts(job);
  const bool waits = job.state() == v1::JOB_STATE_PENDING || job.state() == v1::JOB_STATE_STARTING;
  std::string text =
      absl::StrCat("job ", job.id(), " is ", absl::AsciiStrToLower(NameOf(job.state())));
  if (waits && !job.pending_reasons().empty())
    absl::StrAppend(&text, ": ", Printable(absl::StrJoin(job.pending_reasons(), "; ")));
  if (!waits && !job.ranks().empty())
    absl::StrAppend(&text, " on ", absl::StrJoin(WorkersOf(job), ", "));
  if (text != last_said_) screen_.Line(context_.err(), text);
  last_said_ = std::move(text);
  labels_.Learn(job);
  return waits;
}

v1::ReadLogsRequest Follower::EveryLine() const {
  v1::ReadLogsRequest request;
  request.set_job(job_);
  for (const auto stream : {v1::LOG_STREAM_STDOUT, v1::LOG_STREAM_STDERR, v1::LOG_STREAM_METRICS})
    request.add_streams(stream);
  return request;
}

absl::Status Follower::ShowLogs() {
  if (!reader_) reader_.emplace(context_, EveryLine(), patience_);
  advice_.SilentSince(context_.surroundings().clock.Now());
  while (!reader_->at_end() && out_.good()) {
    DP_ASSIGN_OR_RETURN(std::vector<LogLine> lines, NextLines());
    // A silent job may have been restarted and be waiting for slots.
    if (lines.empty() && !reader_->at_end()) DP_RETURN_IF_ERROR(LookAgain());
    for (const LogLine& line : lines) DP_RETURN_IF_ERROR(Show(line));
    screen_.Bar(progress_.Bar(screen_.columns()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LogLine>> Follower::NextLines() {
  const Clock& clock = context_.surroundings().clock;
  const absl::Duration wait = std::min(advice_.DueIn(clock.Now()), client::kLongPoll);
  DP_ASSIGN_OR_RETURN(std::vector<LogLine> lines, reader_->Next(/*follow=*/true, wait));
  const absl::Time now = clock.Now();
  if (!lines.empty()) advice_.SilentSince(now);
  if (const std::optional<std::string> advice = advice_.Due(now))
    screen_.Line(context_.err(), absl::StrCat("dpctl: ", *advice));
  return lines;
}

absl::Status Follower::LookAgain() {
  const absl::StatusOr<v1::Job> job = GetJob(context_, job_);
  if (!job.ok()) return absl::OkStatus();  // the next read reports the error
  DP_RETURN_IF_ERROR(CheckSame(*seen_, *job));
  if (Finished(job->state())) {
    ShowRestarts(*job);
  } else {
    (void)ShowWaiting(*job);  // the logs are followed in either case
  }
  return absl::OkStatus();
}

// Reports each failure once, however many there were since the last look.
void Follower::ShowRestarts(const v1::Job& job) {
  for (const v1::Failure& failure : job.past_failures()) {
    if (failure.generation() <= announced_) continue;
    announced_ = failure.generation();
    screen_.Line(context_.err(),
                 absl::StrCat("dpctl: job ", job_, ": generation ", announced_,
                              " failed: ", Printable(failure.message()), "; it is restarted"));
  }
}

absl::Status Follower::Show(const LogLine& line) {
  if (labels_.Enter(line.generation)) DP_RETURN_IF_ERROR(LookAgain());
  // Metrics only feed the progress bar; the ranks print what people should read.
  if (line.stream == v1::LOG_STREAM_METRICS) {
    progress_.Add(line.text);
    return absl::OkStatus();
  }
  const int local_rank = LocalRank(line);
  if (files_ && rules_.Files(line, local_rank)) File(line);
  if (!rules_.Shows(line, local_rank)) return absl::OkStatus();
  std::ostream& stream = line.stream == v1::LOG_STREAM_STDERR ? context_.err() : out_;
  screen_.Line(stream, line,
               rules_.prefix.empty() ? absl::StrCat(labels_.Of(line), " ")
                                     : rules_.Prefix(line, local_rank, labels_.HostOf(line)));
  return absl::OkStatus();
}

int Follower::LocalRank(const LogLine& line) {
  if (rules_.ranks_per_node > 0) return line.rank % rules_.ranks_per_node;
  return rules_.need_local_ranks() ? labels_.LocalRankOf(line) : 0;
}

void Follower::File(const LogLine& line) {
  const absl::Status filed = files_->Add(line);
  if (filed.ok()) return;
  screen_.Line(context_.err(),
               absl::StrCat("dpctl: ", filed.message(), "; further lines are shown here"));
  files_.reset();
  rules_.redirects = RankStreams();
}

}  // namespace dp::ctl
