#include "client/dpctl/log_reader.h"

#include <utility>

#include "base/status.h"
#include "proto/convert/time.h"

namespace dp::ctl {
absl::StatusOr<std::vector<LogLine>> LogReader::Next(bool follow, absl::Duration wait) {
  const absl::Duration poll = follow ? wait : absl::ZeroDuration();
  *request_.mutable_timeout() = ToProto(poll);
  DP_ASSIGN_OR_RETURN(v1::ReadLogsResponse response,
                      context_.CallFor(patience_, [&](absl::Duration in) {
                        const absl::Duration deadline = follow ? poll + client::kAnswerSlack : in;
                        return context_.coordinator().logs().ReadLogs(request_, deadline);
                      }));
  std::vector<LogLine> lines;
  for (const v1::LogChunk& chunk : response.chunks())
    for (LogLine& line : lines_.Add(chunk)) lines.push_back(std::move(line));
  *request_.mutable_from() = std::move(*response.mutable_next());
  at_end_ = response.finished() || (!follow && response.chunks().empty());
  if (at_end_)
    for (LogLine& line : lines_.Rest()) lines.push_back(std::move(line));
  response.clear_chunks();
  last_ = std::move(response);
  return lines;
}

}  // namespace dp::ctl
