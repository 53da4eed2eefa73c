#pragma once

#include "client/dpctl/view/json_writer.h"
#include "dp/v1/workers.pb.h"

// How commands show a worker. Pure.

namespace dp::ctl {

// Writes the object `worker` of docs/dpctl.md.
void WriteWorker(const v1::Worker& worker, JsonWriter& json);

// Why the worker is drained or was lost, and which of its slots cannot be used; empty: all is well.
std::string ReasonText(const v1::Worker& worker);

// Why ranks are not given this GPU of the worker. Otherwise "healthy" and what is still wrong, as
// "slowed by heat", or why nothing trains on it.
std::string HealthText(const v1::Worker& worker, const v1::Gpu& gpu);

// For GPUs that the worker has and has not reported yet.
std::string UnreadText(const v1::Worker& worker);

// "gpu=h100,rack=r1", by key; protobuf's maps have no order.
std::string LabelsText(const v1::Worker& worker);

}  // namespace dp::ctl
