#include "worker/agent/gpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

struct OnBus {
  std::string uuid;  // empty where the driver does not say
  std::string model;
};

// Lines as "GPU UUID:  GPU-2f5a...".
OnBus DeviceIn(const fs::path& information) {
  OnBus device;
  std::ifstream file(information);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() != 2) continue;
    const std::string value(absl::StripAsciiWhitespace(parts[1]));
    if (parts[0] == "Model") device.model = value;
    if (parts[0] == "GPU UUID" && !absl::StrContains(value, "?")) device.uuid = value;
  }
  return device;
}

// In its order.
std::vector<OnBus> DevicesOnBus(const std::string& driver_dir) {
  std::error_code error;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(driver_dir, error)) {
    folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  std::vector<OnBus> devices;
  for (const fs::path& folder : folders) devices.push_back(DeviceIn(folder / "information"));
  return devices;
}

bool NumbersAreKnown(const char* order, const std::vector<OnBus>& on_bus) {
  if (order != nullptr && absl::string_view(order) == "PCI_BUS_ID") return true;
  return absl::c_all_of(on_bus,
                        [&on_bus](const OnBus& each) { return each.model == on_bus[0].model; });
}

// Empty: CUDA finds no such device. What is known of no device here, as a MIG one, may be one.
std::string FullName(const std::string& listed, bool numbers_known,
                     const std::vector<OnBus>& on_bus) {
  size_t number = 0;
  if (absl::SimpleAtoi(listed, &number)) {
    if (!numbers_known) return listed;
    if (number >= on_bus.size()) return "";
    return on_bus[number].uuid.empty() ? listed : on_bus[number].uuid;
  }
  // A UUID may be cut short.
  for (const OnBus& device : on_bus) {
    if (absl::StartsWith(device.uuid, listed)) return device.uuid;
  }
  return listed;
}

// As CUDA reads the list, which ends at the first entry that names no device.
std::vector<std::string> ListedGpus(const CudaLimit& limit, const std::vector<OnBus>& on_bus) {
  const bool numbers_known = NumbersAreKnown(limit.order, on_bus);
  std::vector<std::string> devices;
  for (const absl::string_view each : absl::StrSplit(limit.visible, ',')) {
    const std::string listed(absl::StripAsciiWhitespace(each));
    if (listed.empty() || listed == "-1" || listed == "NoDevFiles") break;
    const std::string device = FullName(listed, numbers_known, on_bus);
    if (device.empty()) break;
    devices.push_back(device);
  }
  return devices;
}

}  // namespace

std::vector<std::string> FindGpus(const CudaLimit& limit, const std::string& driver_dir) {
  const std::vector<OnBus> on_bus = DevicesOnBus(driver_dir);
  if (on_bus.empty()) return {};
  if (limit.visible != nullptr) return ListedGpus(limit, on_bus);
  std::vector<std::string> devices;
  for (size_t i = 0; i < on_bus.size(); ++i) {
    devices.push_back(on_bus[i].uuid.empty() ? absl::StrCat(i) : on_bus[i].uuid);
  }
  return devices;
}

std::vector<GpuReading> ReadProcGpus(const std::vector<std::string>& names,
                                     const std::string& driver_dir) {
  const std::vector<OnBus> on_bus = DevicesOnBus(driver_dir);
  std::vector<GpuReading> gpus;
  for (const std::string& name : names) {
    gpus.push_back({.name = name, .read_by = "proc"});
    for (size_t i = 0; i < on_bus.size(); ++i) {
      if (name == on_bus[i].uuid || name == absl::StrCat(i)) gpus.back().model = on_bus[i].model;
    }
  }
  return gpus;
}

}  // namespace dp::worker
