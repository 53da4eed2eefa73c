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

// The job's last failure, if it is a rank's and lacks the rank's last lines; else null.
const core::Failure* LacksLastLines(const core::Job& job) {
  const core::Failure* last = job.failure.has_value() ? &*job.failure
                              : job.past.empty()      ? nullptr
                                                      : &job.past.back().failure;
  const bool lacks = last != nullptr && last->rank.has_value() && last->last_lines.empty();
  return lacks ? last : nullptr;
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

WatchJobCall::WatchJobCall(Driver& driver, LogThread& logs, JobId job, uint64_t since,
                           v1::ResponseHeader& header, v1::Job& answer)
    : driver_(driver),
      logs_(logs),
      job_(job),
      since_(since),
      header_(header),
      answer_(answer),
      ticket_(driver.NewTicket()) {}

void WatchJobCall::Start(absl::Duration timeout) {
  FinishOnError(this, driver_.Wait(ticket_, {{.kind = core::Topic::Kind::kJob, .id = job_.value()}},
                                   timeout, [this](Waiters::Wake wake, const View& view) {
                                     return Woken(wake, view);
                                   }));
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
  const core::Failure* lacking = LacksLastLines(job);
  if (lacking == nullptr) return Finish(grpc::Status::OK);
  const absl::Status asked =
      logs_.Read(job.id, LastLinesOf(*lacking),
                 [this](const absl::StatusOr<LogThread::Page>& page) { AddLastLines(page); });
  if (!asked.ok()) Finish(grpc::Status::OK);  // the answer is good without them
}

void WatchJobCall::AddLastLines(const absl::StatusOr<LogThread::Page>& page) {
  if (page.ok()) {
    v1::Failure& failure = answer_.has_failure() ? *answer_.mutable_failure()
                                                 : *answer_.mutable_past_failures()->rbegin();
    for (std::string& line : LastLines(**page, Generation(failure.generation()))) {
      failure.add_last_lines(std::move(line));
    }
  }
  Finish(grpc::Status::OK);
}

}  // namespace dp::server
