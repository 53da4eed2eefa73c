#include "server/rpc/watch_job_call.h"

#include <string>
#include <utility>

#include "base/limits.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_job.h"
#include "server/core/job_registry.h"
#include "server/rpc/call.h"
#include "server/rpc/last_lines.h"

namespace dp::server {
namespace {

// Whether it is a rank's failure without the rank's last lines.
bool LacksLastLines(const core::Failure& failure) {
  return failure.rank.has_value() && failure.last_lines.empty();
}

LogQuery LastLinesOf(const core::Failure& failure) {
  LogQuery query;
  query.generation = failure.generation;
  query.ranks = {*failure.rank};
  query.tail_lines = static_cast<int>(kLastLinesMax);
  query.finished = true;  // nobody will end the last line
  return query;
}

}  // namespace

WatchJobCall::WatchJobCall(const Admission& admission, LogThread& logs, JobId job, uint64_t since,
                           v1::ResponseHeader& header, v1::Job& answer)
    : admission_(admission),
      logs_(logs),
      job_(job),
      since_(since),
      header_(header),
      answer_(answer),
      ticket_(admission.NewTicket()) {}

void WatchJobCall::Start(absl::Duration timeout) {
  FinishOnError(
      this,
      admission_.Wait(ticket_, {{.kind = core::Topic::Kind::kJob, .id = job_.value()}}, timeout,
                      [this](Waiters::Wake wake, const View& view) { return Woken(wake, view); }));
}

bool WatchJobCall::Woken(Waiters::Wake wake, const View& view) {
  if (wake != Waiters::Wake::kChanged && wake != Waiters::Wake::kDeadline) {
    Finish(ToGrpc(EndOfWait(wake, view.failure)));
    return true;
  }
  const core::Job* job = view.coordinator.job(job_);
  if (job == nullptr) {
    Finish(ToGrpc(core::UnknownJob(job_)));
    return true;
  }
  if (job->version.value() == since_ && wake == Waiters::Wake::kChanged) return false;
  Answer(*job, view);
  return true;
}

void WatchJobCall::Answer(const core::Job& job, const View& view) {
  header_ = HeaderOf(view);
  answer_ = ToProto(job, view);
  if (admission_.HidesValues(view)) HideValues(&answer_);
  if (job.failure.has_value() && LacksLastLines(*job.failure))
    lacking_.push_back({answer_.mutable_failure(), LastLinesOf(*job.failure)});
  for (size_t i = 0; i < job.past.size(); ++i) {
    const core::Failure& failure = job.past[i].failure;
    if (LacksLastLines(failure))
      lacking_.push_back(
          {answer_.mutable_past_failures(static_cast<int>(i)), LastLinesOf(failure)});
  }
  ReadNextLines();
}

void WatchJobCall::ReadNextLines() {
  if (lacking_.empty()) return Finish(grpc::Status::OK);
  const absl::Status asked =
      logs_.Read(job_, lacking_.back().query,
                 [this](const absl::StatusOr<LogThread::Page>& page) { AddLastLines(page); });
  if (!asked.ok()) Finish(grpc::Status::OK);  // the answer is good without them
}

void WatchJobCall::AddLastLines(const absl::StatusOr<LogThread::Page>& page) {
  v1::Failure& failure = *lacking_.back().failure;
  lacking_.pop_back();
  if (page.ok()) {
    for (std::string& line : LastLines(**page, Generation(failure.generation()))) {
      failure.add_last_lines(std::move(line));
    }
  }
  ReadNextLines();
}

}  // namespace dp::server
