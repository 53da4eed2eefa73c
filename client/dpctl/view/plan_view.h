#pragma once

#include <ostream>

#include "client/dpctl/view/json_writer.h"
#include "dp/v1/jobs.pb.h"

// Shows where a job would be placed, for `submit --dry-run --explain`. Pure.

namespace dp::ctl {

// Writes the object `plan` of docs/dpctl.md.
void WritePlan(const v1::PlanResponse& plan, JsonWriter& json);

void ExplainPlan(const v1::PlanResponse& plan, std::ostream& out);

// Writes the list `waitsFor` of a job or plan.
void WriteReasons(const google::protobuf::RepeatedPtrField<v1::PendingReason>& reasons,
                  JsonWriter& json);

// The text, and behind it the jobs in the way: "needs 2 slots, ... (held by jobs 3, 4)".
std::string ReasonText(const v1::PendingReason& reason);

}  // namespace dp::ctl
