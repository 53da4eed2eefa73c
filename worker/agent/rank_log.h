#pragma once

#include "absl/strings/string_view.h"
#include "base/program/log.h"
#include "base/rank.h"

namespace dp::worker {

// Logs an event of one rank. Any thread.
template <typename... More>
void LogRank(Severity severity, absl::string_view event, const RankKey& key, const More&... more) {
  Log(severity, event,
      {{"job", key.job.value()},
       {"generation", key.generation.value()},
       {"rank", key.rank},
       more...});
}

}  // namespace dp::worker
