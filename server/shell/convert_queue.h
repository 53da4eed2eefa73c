#pragma once

#include "absl/status/status.h"
#include "dp/v1/jobs.pb.h"
#include "server/core/event_history.h"
#include "server/core/placement.h"
#include "server/shell/driver.h"

// Plans and events on their way to clients. Pure; any thread, but for what looks at a View.

namespace dp::server {

v1::Event ToProto(const core::Event& event);

// Where the job would be placed now, or why it would wait. Errors: those of SubmitJob.
absl::Status FillPlan(const core::SubmitJob& submit, const core::PlacementPolicy& policy,
                      const View& view, v1::PlanResponse* response);

}  // namespace dp::server
