#include "worker/agent/gpus/gpu_report.h"

#include <algorithm>

#include "base/limits.h"

namespace dp::worker {
namespace {

v1::Gpu GpuToProto(const GpuReading& gpu, const GpuHealthLimits& limits) {
  v1::Gpu proto;
  proto.set_name(gpu.name);
  proto.set_read_by(gpu.read_by);
  proto.set_model(gpu.model);
  if (gpu.memory_bytes) proto.set_memory_bytes(*gpu.memory_bytes);
  if (gpu.memory_used_bytes) proto.set_memory_used_bytes(*gpu.memory_used_bytes);
  if (gpu.utilisation_percent) proto.set_utilisation_percent(*gpu.utilisation_percent);
  if (gpu.temperature_celsius) proto.set_temperature_celsius(*gpu.temperature_celsius);
  for (const std::string& name : SlowdownNames(gpu.slowdowns.value_or(0))) {
    proto.add_slowed_by(name);
  }
  if (gpu.uncorrected_errors) proto.set_uncorrected_errors(*gpu.uncorrected_errors);
  if (gpu.repair_pending) proto.set_repair_pending(*gpu.repair_pending);
  if (gpu.xid) proto.set_xid(*gpu.xid);
  proto.set_unfit(WhyUnfit(gpu, limits));
  return proto;
}

}  // namespace

std::vector<v1::Gpu> GpusToProto(const std::vector<GpuReading>& gpus, int slots,
                                 const GpuHealthLimits& limits) {
  std::vector<v1::Gpu> protos;
  for (size_t i = 0; i < std::min(gpus.size(), kGpusMax); ++i) {
    protos.push_back(GpuToProto(gpus[i], limits));
    protos.back().set_slot(static_cast<int>(i) % slots);
  }
  return protos;
}

}  // namespace dp::worker
