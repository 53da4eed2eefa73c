#pragma once

#include "dp/v1/workers.pb.h"
#include "worker/core/observed.h"
#include "worker/core/session.h"
#include "worker/core/supervisor.h"

namespace dp::worker {

// The report of a rank to the coordinator. Pure.
v1::ReportRankRequest RequestFor(const Report& report, const Process& process,
                                 const Session& session);

}  // namespace dp::worker
