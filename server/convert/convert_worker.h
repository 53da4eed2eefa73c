#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "dp/v1/workers.pb.h"
#include "server/core/assignment.h"
#include "server/core/worker.h"
#include "server/driver/driver.h"
#include "store/key_values.h"

// Converts workers and their assignments between the wire and the core. Pure; any thread.

namespace dp::server {

v1::Worker ToProto(const core::Worker& worker, const View& view);
// Ranks whose store the coordinator serves get `store_host`; all ranks that have a store get the
// limits.
v1::Assignment ToProto(const core::Assignment& assignment, const std::string& store_host,
                       const KeyValueLimits& store_limits);
// Errors: InvalidArgument workers do not report this state.
absl::StatusOr<core::ReportRank> FromProto(const v1::ReportRankRequest& request);
core::ReportSlots FromProto(const v1::ReportSlotsRequest& request);

}  // namespace dp::server
