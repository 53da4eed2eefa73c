#pragma once

#include <ostream>

#include "client/dpctl/context.h"
#include "dp/v1/jobs.pb.h"
#include "dp/v1/logs.pb.h"

// What ranks wrote and their workers have not sent yet: a job may be over before, where a worker is
// stopped, gone, or the coordinator had no room.

namespace dp::ctl {

// Says whose output that is, where the last answer of a Read names any. `generation` is the latest
// of the job.
void WarnOfOutstanding(uint64_t job, uint64_t generation, const v1::ReadLogsResponse& last,
                       std::ostream& err);

// The same for a job that is over; asks the coordinator once, and says nothing where it does not
// answer.
void WarnOfOutstanding(Context& context, const v1::Job& job);

}  // namespace dp::ctl
