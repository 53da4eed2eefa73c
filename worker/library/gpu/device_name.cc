#include "worker/library/gpu/device_name.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace dp::library {
namespace {

constexpr const char* kOtherAccelerators[] = {"hip", "mps", "tpu", "xla", "xpu"};
constexpr const char* kDevicesToGive = "give cpu:0, cpu:1, ..., or cuda:0, cuda:1, ...";

std::optional<int> DeviceNumber(const std::string& text) {
  int number = 0;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || !absl::SimpleAtoi(text, &number) || absl::StrCat(number) != text)
    return std::nullopt;
  return number;
}

}  // namespace

absl::StatusOr<DeviceName> ParseDevice(const std::string& name) {
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  if (std::find(std::begin(kOtherAccelerators), std::end(kOtherAccelerators), kind) !=
      std::end(kOtherAccelerators))
    return absl::UnimplementedError(absl::StrCat(
        "device '", name, "' is an accelerator that this release does not use; ", kDevicesToGive));
  DeviceName parsed{.is_gpu = kind == "cuda"};
  if (colon != std::string::npos) parsed.number = DeviceNumber(name.substr(colon + 1));
  const bool numbered = parsed.number.has_value() || colon == std::string::npos;
  if (numbered && (parsed.is_gpu || kind == "cpu")) return parsed;
  return absl::InvalidArgumentError(
      absl::StrCat("device '", name, "' is unknown; ", kDevicesToGive));
}

}  // namespace dp::library
