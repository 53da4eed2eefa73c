#pragma once

#include <ostream>

#include "client/dpctl/context.h"
#include "dp/v1/jobs.pb.h"
#include "dp/v1/logs.pb.h"

// Output of ranks that workers have not sent yet. A job may be over before its output has arrived:
// a worker was stopped or lost, or the coordinator had no room.

namespace dp::ctl {

// Reports whose output is outstanding according to the last response of a Read. `generation` is the
// job's latest.
void WarnOfOutstanding(uint64_t job, uint64_t generation, const v1::ReadLogsResponse& last,
                       std::ostream& err);

// The same for a job that is over. Asks the coordinator once, and reports nothing if it does not
// answer.
void WarnOfOutstanding(Context& context, const v1::Job& job);

}  // namespace dp::ctl
