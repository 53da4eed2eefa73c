#pragma once

#include "client/dpctl/json_writer.h"
#include "dp/v1/workers.pb.h"

// A worker as commands show it. Pure.

namespace dp::ctl {

// The object `worker` of docs/dpctl.md.
void WriteWorker(const v1::Worker& worker, JsonWriter& json);

// Why it is drained or was lost, and which of its slots cannot be used; empty: nothing is amiss.
std::string ReasonText(const v1::Worker& worker);

// Whether ranks are given this GPU of the worker, and what else is amiss: "healthy, slowed by
// heat", or why nothing trains on it.
std::string HealthText(const v1::Worker& worker, const v1::Gpu& gpu);

// Of GPUs that the worker has and has not told of yet.
std::string UnreadText(const v1::Worker& worker);

// "gpu=h100,rack=r1", by key; protobuf's maps have no order.
std::string LabelsText(const v1::Worker& worker);

}  // namespace dp::ctl
