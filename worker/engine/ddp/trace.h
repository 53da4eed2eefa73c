#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace dp::engine {

// An event in one step of data-parallel training; docs/ddp.md explains how to read a trace.
struct TraceEvent {
  enum class What {
    kBackwardBegun,
    kBucketLaunched,  // its gradients are ready; it is queued
    kBucketBegun,     // its all-reduce runs
    kBucketEnded,
    kBackwardEnded,
    kStepEnded,  // gradients are the mean; on a device, they will be when its stream gets there
  };
  What what = What::kBackwardBegun;
  absl::Time time;
  int bucket = -1;  // of the bucket events
};

// Sorted by time.
using Trace = std::vector<TraceEvent>;

// One JSON object a line: {"step":7,"event":"bucket_begun","bucket":0,"microseconds":1234}.
// Microseconds count from the first event.
std::string TraceJsonLines(const Trace& trace, int64_t step);

}  // namespace dp::engine
