#pragma once

#include "dp/v1/workers.pb.h"
#include "worker/agent/session.h"
#include "worker/core/observed.h"
#include "worker/core/supervisor.h"

namespace dp::worker {

// What the coordinator is told of a rank. Pure.
v1::ReportRankRequest RequestFor(const Report& report, const Process& process,
                                 const Session& session);

}  // namespace dp::worker
