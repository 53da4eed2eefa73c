#pragma once

#include <vector>

#include "dp/v1/workers.pb.h"
#include "worker/core/gpu_health.h"

namespace dp::worker {

// The report of GPUs to the coordinator: the first kGpusMax of them, dealt to `slots` slots in
// turn. Pure.
std::vector<v1::Gpu> GpusToProto(const std::vector<GpuReading>& gpus, int slots,
                                 const GpuHealthLimits& limits);

}  // namespace dp::worker
