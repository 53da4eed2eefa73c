#include "client/dpctl/log_reader.h"

#include <utility>

#include "base/status.h"
#include "client/time_convert.h"

namespace dp::ctl {
namespace {

// One long poll. Short enough for a half-open connection to be noticed.
constexpr absl::Duration kPoll = absl::Seconds(10);
constexpr absl::Duration kAnswerSlack = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::vector<LogLine>> LogReader::Next(bool follow) {
  const absl::Duration poll = follow ? kPoll : absl::ZeroDuration();
  *request_.mutable_timeout() = client::ToProto(poll);
  DP_ASSIGN_OR_RETURN(
      v1::ReadLogsResponse response, context_.CallFor(patience_, [&](absl::Duration) {
        return context_.coordinator().logs().ReadLogs(request_, poll + kAnswerSlack);
      }));
  std::vector<LogLine> lines;
  for (const v1::LogChunk& chunk : response.chunks())
    for (LogLine& line : lines_.Add(chunk)) lines.push_back(std::move(line));
  *request_.mutable_from() = std::move(*response.mutable_next());
  at_end_ = response.finished() || (!follow && response.chunks().empty());
  if (at_end_)
    for (LogLine& line : lines_.Rest()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace dp::ctl
