#include "worker/agent/gpus/gpu_report.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "dp/v1/metrics.pb.h"
#include "google/protobuf/util/json_util.h"
#include "proto/convert/time.h"

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

v1::Metric MetricOf(int rank, const GpuReading& gpu, absl::Time now) {
  v1::Metric metric;
  metric.set_event("gpu");
  // In microseconds, as in the rank's own lines.
  *metric.mutable_time() = ToProto(absl::FromUnixMicros(absl::ToUnixMicros(now)));
  metric.set_rank(rank);
  metric.set_gpu(gpu.name);
  if (gpu.memory_bytes) metric.set_gpu_memory_bytes(*gpu.memory_bytes);
  if (gpu.memory_used_bytes) metric.set_gpu_memory_used_bytes(*gpu.memory_used_bytes);
  if (gpu.utilisation_percent) metric.set_gpu_utilisation_percent(*gpu.utilisation_percent);
  if (gpu.temperature_celsius) metric.set_gpu_temperature_celsius(*gpu.temperature_celsius);
  return metric;
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

std::string GpuMetricLines(int rank, const std::vector<Device>& devices,
                           const std::vector<GpuReading>& readings, absl::Time now) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string lines;
  for (const GpuReading& gpu : readings) {
    const bool has =
        absl::c_any_of(devices, [&gpu](const Device& device) { return device.name == gpu.name; });
    if (!has) continue;
    std::string line;
    DP_CHECK(
        google::protobuf::util::MessageToJsonString(MetricOf(rank, gpu, now), &line, options).ok());
    absl::StrAppend(&lines, line, "\n");
  }
  return lines;
}

}  // namespace dp::worker
