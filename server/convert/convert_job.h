#pragma once

#include "dp/v1/jobs.pb.h"
#include "server/core/job.h"
#include "server/driver/driver.h"

// Converts jobs from the core to the wire. Pure; any thread.

namespace dp::server {

// The spec as its owner gave it, parsed from bytes that the core does not read.
v1::JobSpec ParseSpec(const std::string& payload);
v1::RankState ToProto(core::RankState state);
v1::JobState ToProto(core::JobState state);
v1::FailureClass ToProto(core::FailureClass failure_class);
// nullopt: unspecified, or a class of a later release.
std::optional<core::FailureClass> FromProto(v1::FailureClass failure_class);
v1::PendingReason ToProto(const core::PendingReason& reason);
v1::Job ToProto(const core::Job& job, const View& view);
// Replaces the values of the job's variables, which may be secret.
void HideValues(v1::Job* job);

}  // namespace dp::server
