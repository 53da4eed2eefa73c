#include "worker/library/data_parallel/device_names.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/library/gpu/device_name.h"
#include "worker/library/memory/array_math.h"

namespace dp::library {
namespace {

// Each is a thread.
constexpr size_t kDevicesMax = 256;

template <typename... Words>
absl::Status BadDevices(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat("DataParallel: ", words...));
}

absl::StatusOr<DeviceName> ParsedDevice(const std::string& device) {
  absl::StatusOr<DeviceName> parsed = ParseDevice(device);
  if (parsed.ok()) return parsed;
  return absl::Status(parsed.status().code(),
                      absl::StrCat("DataParallel: ", std::string(parsed.status().message())));
}

}  // namespace

absl::Status CheckDevice(const std::string& device) { return ParsedDevice(device).status(); }

absl::Status CheckDevices(absl::Span<const std::string> devices) {
  if (devices.empty() || devices.size() > kDevicesMax)
    return BadDevices(devices.size(), " devices are given; give 1 to ", kDevicesMax);
  std::set<std::string> seen;
  bool gpus = false;
  for (const std::string& device : devices) {
    DP_ASSIGN_OR_RETURN(const DeviceName parsed, ParsedDevice(device));
    if (!parsed.is_gpu && !parsed.number)
      return BadDevices("device '", device, "' has no number; give cpu:0, cpu:1, ...");
    if (seen.empty()) gpus = parsed.is_gpu;
    if (parsed.is_gpu != gpus)
      return BadDevices("devices '", devices[0], "' and '", device,
                        "' are of two kinds, and replicas are alike; give CPUs only, or GPUs only");
    if (!seen.insert(device).second)
      return BadDevices("device '", device, "' is given twice; give each device once");
  }
  if (gpus && devices.size() > kSumArraysMax)
    return BadDevices(devices.size(), " GPUs are given; give 1 to ", kSumArraysMax);
  return absl::OkStatus();
}

absl::Status CheckDataParallelOptions(const distributed::DataParallelOptions& options) {
  if (options.dim < 0) return BadDevices("dim is ", options.dim, "; give 0 or more");
  if (!options.device_ids.empty()) DP_RETURN_IF_ERROR(CheckDevices(options.device_ids));
  if (options.output_device.empty()) return absl::OkStatus();
  if (options.device_ids.empty())
    return BadDevices("output_device is ", options.output_device,
                      " without device_ids; give both, or none");
  DP_ASSIGN_OR_RETURN(const DeviceName output, ParsedDevice(options.output_device));
  DP_ASSIGN_OR_RETURN(const DeviceName first, ParsedDevice(options.device_ids[0]));
  if (output.is_gpu && !first.is_gpu)
    return BadDevices("output_device '", options.output_device,
                      "' is a GPU, and device_ids are CPUs; give a CPU");
  return absl::OkStatus();
}

}  // namespace dp::library
