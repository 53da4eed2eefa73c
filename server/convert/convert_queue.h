#pragma once

#include "absl/status/status.h"
#include "dp/v1/jobs.pb.h"
#include "server/core/event_history.h"
#include "server/driver/driver.h"
#include "server/policy/placement.h"

// Converts plans and events for clients. Pure; any thread, but functions that take a View run on
// the driver's.

namespace dp::server {

v1::Event ToProto(const core::Event& event);

// Where the job would be placed now, or why it would wait. Errors: those of SubmitJob.
absl::Status FillPlan(const core::SubmitJob& submit, const core::PlacementPolicy& policy,
                      const View& view, v1::PlanResponse* response);

}  // namespace dp::server
