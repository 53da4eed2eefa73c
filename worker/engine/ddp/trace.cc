#include "worker/engine/ddp/trace.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace dp::engine {
namespace {

const char* Name(TraceEvent::What what) {
  switch (what) {
    case TraceEvent::What::kBackwardBegun:
      return "backward_begun";
    case TraceEvent::What::kBucketLaunched:
      return "bucket_launched";
    case TraceEvent::What::kBucketBegun:
      return "bucket_begun";
    case TraceEvent::What::kBucketEnded:
      return "bucket_ended";
    case TraceEvent::What::kBackwardEnded:
      return "backward_ended";
    case TraceEvent::What::kStepEnded:
      return "step_ended";
  }
  DP_CHECK(false);
  return "";
}

}  // namespace

std::string TraceJsonLines(const Trace& trace, int64_t step) {
  std::string lines;
  for (const TraceEvent& event : trace) {
    absl::StrAppend(&lines, "{\"step\":", step, ",\"event\":\"", Name(event.what), "\"");
    if (event.bucket >= 0) absl::StrAppend(&lines, ",\"bucket\":", event.bucket);
    absl::StrAppend(&lines, ",\"microseconds\":",
                    absl::ToInt64Microseconds(event.time - trace.front().time), "}\n");
  }
  return lines;
}

}  // namespace dp::engine
