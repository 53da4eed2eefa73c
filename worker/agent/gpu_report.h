#pragma once

#include <vector>

#include "dp/v1/workers.pb.h"
#include "worker/core/gpu_health.h"

namespace dp::worker {

// What the coordinator is told of GPUs, which are dealt to `slots` slots in turn: of the first
// kGpusMax. Pure.
std::vector<v1::Gpu> GpusToProto(const std::vector<GpuReading>& gpus, int slots,
                                 const GpuHealthLimits& limits);

}  // namespace dp::worker
