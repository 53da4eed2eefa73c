#include "worker/library/data_parallel/device_names.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace dp::library {
namespace {

// Each is a thread.
constexpr size_t kDevicesMax = 256;
constexpr const char* kAccelerators[] = {"cuda", "hip", "mps", "tpu", "xla", "xpu"};

template <typename... Words>
absl::Status BadDevices(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat("DataParallel: ", words...));
}

bool IsNumber(absl::string_view text) {
  int number = 0;
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos &&
         absl::SimpleAtoi(text, &number) && absl::StrCat(number) == text;
}

}  // namespace

absl::Status CheckDevice(const std::string& device) {
  const std::string kind = device.substr(0, device.find(':'));
  if (std::find(std::begin(kAccelerators), std::end(kAccelerators), kind) !=
      std::end(kAccelerators)) {
    return absl::UnimplementedError(absl::StrCat(
        "DataParallel: device '", device,
        "' is an accelerator, and this release has CPU devices only; give cpu:0, cpu:1, ..., or "
        "train with one process for each GPU, as jobs of dp do"));
  }
  absl::string_view number = device;
  if (absl::ConsumePrefix(&number, "cpu:") && IsNumber(number)) return absl::OkStatus();
  return BadDevices("device '", device, "' is unknown; give cpu:0, cpu:1, ...");
}

absl::Status CheckDevices(absl::Span<const std::string> devices) {
  if (devices.empty() || devices.size() > kDevicesMax)
    return BadDevices(devices.size(), " devices are given; give 1 to ", kDevicesMax);
  std::set<std::string> seen;
  for (const std::string& device : devices) {
    DP_RETURN_IF_ERROR(CheckDevice(device));
    if (!seen.insert(device).second)
      return BadDevices("device '", device, "' is given twice; give each device once");
  }
  return absl::OkStatus();
}

absl::Status CheckDataParallelOptions(const distributed::DataParallelOptions& options) {
  if (options.dim < 0) return BadDevices("dim is ", options.dim, "; give 0 or more");
  if (!options.device_ids.empty()) DP_RETURN_IF_ERROR(CheckDevices(options.device_ids));
  if (options.output_device.empty()) return absl::OkStatus();
  if (options.device_ids.empty())
    return BadDevices("output_device is ", options.output_device,
                      " without device_ids; give both, or none");
  return CheckDevice(options.output_device);
}

}  // namespace dp::library
