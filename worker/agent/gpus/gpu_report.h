#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dp/v1/workers.pb.h"
#include "worker/core/gpu_health.h"
#include "worker/core/slot_devices.h"

namespace dp::worker {

// The report of GPUs to the coordinator: the first kGpusMax of them, dealt to `slots` slots in
// turn. Pure.
std::vector<v1::Gpu> GpusToProto(const std::vector<GpuReading>& gpus, int slots,
                                 const GpuHealthLimits& limits);

// Lines for the METRICS stream of a rank that has `devices`: one for each device with a reading
// (proto/dp/v1/metrics.proto, event "gpu"). Empty if there is none. Pure.
std::string GpuMetricLines(int rank, const std::vector<Device>& devices,
                           const std::vector<GpuReading>& readings, absl::Time now);

}  // namespace dp::worker
