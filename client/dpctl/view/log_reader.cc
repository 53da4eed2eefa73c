#include "client/dpctl/view/log_reader.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "client/dpctl/job_calls.h"
#include "dp/v1/logs.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {

absl::StatusOr<std::vector<LogLine>> LogReader::Next(bool follow, absl::Duration wait) {
  const absl::Time now = context_.surroundings().clock.Now();
  const absl::Duration left = std::max(late_until_.value_or(now) - now, absl::ZeroDuration());
  const absl::Duration poll = late_until_ ? left : follow ? wait : absl::ZeroDuration();
  *request_.mutable_timeout() = ToProto(poll);
  absl::StatusOr<v1::ReadLogsResponse> response =
      context_.CallFor(late_until_ ? left : patience_, [&](absl::Duration in) {
        const absl::Duration deadline = follow ? poll + client::kAnswerSlack : in;
        return context_.coordinator().Call(&v1::Logs::Stub::Read, request_, deadline);
      });
  // Gives up on outstanding output only: the job has ended and all of its other output is here.
  const bool given_up = late_until_ && !response.ok() && !absl::IsCancelled(response.status());
  if (given_up) response = last_;
  if (!response.ok()) return WhileFollowed(request_.job(), response.status());
  std::vector<LogLine> lines;
  for (const v1::LogChunk& chunk : response->chunks())
    for (LogLine& line : lines_.Add(chunk)) lines.push_back(std::move(line));
  at_end_ = given_up || IsLast(*response, follow);
  if (at_end_)
    for (LogLine& line : lines_.Rest()) lines.push_back(std::move(line));
  *request_.mutable_from() = std::move(*response->mutable_next());
  // Streams that begin later are read from their first byte.
  request_.clear_tail_lines();
  request_.clear_since();
  response->clear_chunks();
  last_ = *std::move(response);
  return lines;
}

bool LogReader::IsLast(const v1::ReadLogsResponse& response, bool follow) {
  if (!follow) return response.finished() || response.chunks().empty();
  if (!response.finished()) return false;
  if (response.outstanding_ranks() == 0) return true;
  const absl::Time now = context_.surroundings().clock.Now();
  // An empty answer used up the wait, or comes from a coordinator that does not wait.
  if (late_until_) return response.chunks().empty() || now >= *late_until_;
  late_until_ = now + kLateOutputWithin;
  request_.set_await_outstanding(true);
  return false;
}

}  // namespace dp::ctl
