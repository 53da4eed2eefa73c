#include "worker/agent/gpus/gpu_metrics.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "dp/v1/metrics.pb.h"
#include "google/protobuf/util/json_util.h"
#include "proto/convert/time.h"

namespace dp::worker {
namespace {

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
