#pragma once

#include <optional>
#include <vector>

#include "client/dpctl/context.h"
#include "client/dpctl/view/log_lines.h"
#include "client/long_poll.h"
#include "dp/v1/logs.pb.h"

namespace dp::ctl {

// How long a reader that follows a job waits, after the job's end, for output of lost workers. A
// restarted daemon sends the rest of its ranks' output within a second or two.
inline constexpr absl::Duration kLateOutputWithin = absl::Seconds(5);

// Reads the logs of one job line by line. After an interruption it continues by position, so a
// restart of the coordinator neither loses nor repeats a line. Part of a command; one thread.
class LogReader {
 public:
  // `request` has the job, streams, ranks and number of tail lines.
  LogReader(Context& context, v1::ReadLogsRequest request, absl::Duration patience,
            LogLines::Bars bars = LogLines::Bars::kAtOnce)
      : context_(context), request_(std::move(request)), patience_(patience), lines_(bars) {}

  // The next lines; may be none. With `follow`, waits up to `wait` for some. At the end of the job,
  // waits up to kLateOutputWithin if output is outstanding.
  // Errors: NotFound the job was removed; Unavailable the coordinator was away for longer than
  // `patience`.
  absl::StatusOr<std::vector<LogLine>> Next(bool follow, absl::Duration wait = client::kLongPoll);

  // Whether the last Next reached the end: with `follow`, of the job; else of the stored output.
  bool at_end() const { return at_end_; }
  // The last answer, without its chunks.
  const v1::ReadLogsResponse& last() const { return last_; }

 private:
  // Whether `response` is the last one. If output is outstanding, begins the wait for it.
  bool IsLast(const v1::ReadLogsResponse& response, bool follow);

  Context& context_;
  v1::ReadLogsRequest request_;
  const absl::Duration patience_;
  LogLines lines_;
  bool at_end_ = false;
  std::optional<absl::Time> late_until_;  // while the reader waits for outstanding output
  v1::ReadLogsResponse last_;
};

}  // namespace dp::ctl
