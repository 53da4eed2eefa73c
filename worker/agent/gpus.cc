#include "worker/agent/gpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

// "GPU UUID:  GPU-2f5a..."; empty where the driver does not say.
std::string UuidIn(const fs::path& information) {
  std::ifstream file(information);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() != 2 || parts[0] != "GPU UUID") continue;
    const absl::string_view uuid = absl::StripAsciiWhitespace(parts[1]);
    return absl::StrContains(uuid, "?") ? "" : std::string(uuid);
  }
  return "";
}

// As CUDA reads the list, which ends at the first entry that names no device.
std::vector<std::string> Listed(const char* limit) {
  std::vector<std::string> devices;
  for (const absl::string_view each : absl::StrSplit(limit, ',')) {
    const absl::string_view device = absl::StripAsciiWhitespace(each);
    if (device.empty() || device == "-1" || device == "NoDevFiles") break;
    devices.emplace_back(device);
  }
  return devices;
}

}  // namespace

std::vector<std::string> FindGpus(const char* limit, const std::string& driver_dir) {
  std::error_code error;
  std::vector<fs::path> on_bus;
  for (const auto& entry : fs::directory_iterator(driver_dir, error))
    on_bus.push_back(entry.path());
  if (on_bus.empty()) return {};
  if (limit != nullptr) return Listed(limit);
  std::sort(on_bus.begin(), on_bus.end());
  std::vector<std::string> devices;
  for (size_t i = 0; i < on_bus.size(); ++i) {
    const std::string uuid = UuidIn(on_bus[i] / "information");
    devices.push_back(uuid.empty() ? absl::StrCat(i) : uuid);
  }
  return devices;
}

}  // namespace dp::worker
