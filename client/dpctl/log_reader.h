#pragma once

#include <optional>
#include <vector>

#include "client/dpctl/context.h"
#include "client/dpctl/log_lines.h"
#include "client/long_poll.h"
#include "dp/v1/logs.pb.h"

namespace dp::ctl {

// How long a reader that follows a job waits, after the job's end, for output of lost workers. A
// daemon that is restarted sends what its ranks had written within a second or two of its start.
inline constexpr absl::Duration kLateOutputWithin = absl::Seconds(5);

// Reads the logs of one job line by line, going on by position wherever it was interrupted, so that
// a restart of the coordinator neither loses nor repeats a line. Part of a command; one thread.
class LogReader {
 public:
  // `request` says which job, streams, ranks and how many lines of the tail.
  LogReader(Context& context, v1::ReadLogsRequest request, absl::Duration patience,
            LogLines::Bars bars = LogLines::Bars::kAtOnce)
      : context_(context), request_(std::move(request)), patience_(patience), lines_(bars) {}

  // The next lines; waits for some for so long where `follow` is set, and at the end of the job
  // for up to kLateOutputWithin where output is outstanding. May be none.
  // Errors: NotFound unknown job; Unavailable the coordinator was away for longer than `patience`.
  absl::StatusOr<std::vector<LogLine>> Next(bool follow, absl::Duration wait = client::kLongPoll);

  // Whether the last Next found the end: with `follow`, that of the job; else of what is there.
  bool at_end() const { return at_end_; }
  // The last answer, without its chunks.
  const v1::ReadLogsResponse& last() const { return last_; }

 private:
  // Whether `response` is the last one. Where output is outstanding, the wait for it begins.
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
