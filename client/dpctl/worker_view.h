#pragma once

#include "client/dpctl/json_writer.h"
#include "dp/v1/workers.pb.h"

// A worker as commands show it. Pure.

namespace dp::ctl {

// The object `worker` of docs/dpctl.md.
void WriteWorker(const v1::Worker& worker, JsonWriter& json);

// "gpu=h100,rack=r1", by key; protobuf's maps have no order.
std::string LabelsText(const v1::Worker& worker);

}  // namespace dp::ctl
