#pragma once

#include <ostream>

#include "client/dpctl/json_writer.h"
#include "dp/v1/jobs.pb.h"

// Where a job would be placed, as `submit --dry-run --explain` shows it. Pure.

namespace dp::ctl {

// The object `plan` of docs/dpctl.md.
void WritePlan(const v1::PlanResponse& plan, JsonWriter& json);

void ExplainPlan(const v1::PlanResponse& plan, std::ostream& out);

// The list `waitsFor` of a job or plan.
void WriteReasons(const google::protobuf::RepeatedPtrField<v1::PendingReason>& reasons,
                  JsonWriter& json);

// The text, and behind it who is in the way: "needs 2 slots, ... (held by jobs 3, 4)".
std::string ReasonText(const v1::PendingReason& reason);

}  // namespace dp::ctl
