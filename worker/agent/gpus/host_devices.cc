#include "worker/agent/gpus/host_devices.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kGoogle = "0x1ae0";

// The PCI devices of Google that are TPU chips, as JAX knows them, too.
constexpr std::pair<absl::string_view, absl::string_view> kTpus[] = {
    {"0x0027", "TPU v3"},  {"0x005e", "TPU v4"},  {"0x0062", "TPU v5p"},
    {"0x0063", "TPU v5e"}, {"0x006f", "TPU v6e"}, {"0x0076", "TPU v7x"},
};

std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(absl::StripAsciiWhitespace(line));
}

// Empty if the device is no TPU.
std::string TpuModel(const fs::path& device) {
  if (FirstLine(device / "vendor") != kGoogle) return "";
  const std::string id = FirstLine(device / "device");
  for (const auto& [each, model] : kTpus) {
    if (each == id) return std::string(model);
  }
  return "";
}

}  // namespace

std::vector<std::string> ListTpus(const std::string& sys_dir) {
  std::vector<std::string> tpus;
  std::error_code ignored;  // a host without a PCI bus has no TPUs
  for (const auto& device :
       fs::directory_iterator(fs::path(sys_dir) / "bus/pci/devices", ignored)) {
    const std::string model = TpuModel(device.path());
    if (model.empty()) continue;
    tpus.push_back(absl::StrCat(device.path().filename().string(), " ", model));
  }
  std::sort(tpus.begin(), tpus.end());
  return tpus;
}

HostCpus ReadCpus(const std::string& proc_dir) {
  HostCpus cpus{.count = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u))};
  std::ifstream file(fs::path(proc_dir) / "cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    cpus.model = std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
    break;
  }
  return cpus;
}

std::string DeviceLines(const std::vector<std::string>& tpus, const std::string& gpu_lines,
                        bool has_gpus, const HostCpus& cpus) {
  std::string lines = absl::StrCat(tpus.size(), tpus.size() == 1 ? " TPU\n" : " TPUs\n");
  for (const std::string& tpu : tpus) absl::StrAppend(&lines, tpu, "\n");
  absl::StrAppend(&lines, gpu_lines, cpus.count, cpus.count == 1 ? " CPU" : " CPUs",
                  " that ranks may use", cpus.model.empty() ? "" : ": ", cpus.model, "\n");
  absl::StrAppend(&lines, "native training ", has_gpus ? "prefers GPUs" : "takes CPUs",
                  tpus.empty() ? "" : "; programs that know TPUs find them by themselves", "\n");
  return lines;
}

}  // namespace dp::worker
