#include "worker/agent/gpus.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dp::worker {
namespace {

bool NumbersAreKnown(const char* order, const std::vector<InstalledGpu>& on_bus) {
  if (order != nullptr && absl::string_view(order) == "PCI_BUS_ID") return true;
  return absl::c_all_of(
      on_bus, [&on_bus](const InstalledGpu& each) { return each.model == on_bus[0].model; });
}

// Empty: CUDA finds no such device. What is known of no device here, as a MIG one, may be one.
std::string FullName(const std::string& listed, bool numbers_known,
                     const std::vector<InstalledGpu>& on_bus) {
  size_t number = 0;
  if (absl::SimpleAtoi(listed, &number)) {
    if (!numbers_known) return listed;
    if (number >= on_bus.size()) return "";
    return on_bus[number].uuid.empty() ? listed : on_bus[number].uuid;
  }
  // A UUID may be cut short.
  for (const InstalledGpu& device : on_bus) {
    if (absl::StartsWith(device.uuid, listed)) return device.uuid;
  }
  return listed;
}

// As CUDA reads the list, which ends at the first entry that names no device.
std::vector<std::string> ListedGpus(const CudaLimit& limit,
                                    const std::vector<InstalledGpu>& on_bus) {
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

std::vector<std::string> FindGpus(const CudaLimit& limit, const std::vector<InstalledGpu>& on_bus) {
  if (on_bus.empty()) return {};
  if (limit.visible != nullptr) return ListedGpus(limit, on_bus);
  std::vector<std::string> devices;
  for (size_t i = 0; i < on_bus.size(); ++i) {
    devices.push_back(on_bus[i].uuid.empty() ? absl::StrCat(i) : on_bus[i].uuid);
  }
  return devices;
}

std::string GpuLines(const GpuInventory& found, const std::vector<std::string>& usable) {
  std::string lines =
      absl::StrCat(usable.size(), usable.size() == 1 ? " GPU" : " GPUs", " that ranks may use");
  if (usable.empty()) {
    const std::string hidden =
        absl::StrCat("CUDA_VISIBLE_DEVICES names none of the ", found.gpus.size(), " here");
    return absl::StrCat(lines, ": ", found.gpus.empty() ? found.why_not : hidden, "\n");
  }
  absl::StrAppend(&lines, ", by ", found.listed_by,
                  found.why_not.empty() ? "" : absl::StrCat(" (", found.why_not, ")"), "\n");
  for (const std::string& name : usable) {
    const auto gpu = absl::c_find_if(
        found.gpus, [&name](const InstalledGpu& each) { return each.uuid == name; });
    const std::string model = gpu == found.gpus.end() ? "" : absl::StrCat(" ", gpu->model);
    absl::StrAppend(&lines, name, model, "\n");
  }
  return lines;
}

std::vector<GpuReading> ReadProcGpus(const std::vector<std::string>& names,
                                     const std::string& driver_dir) {
  const std::vector<InstalledGpu> on_bus = ListByProc(driver_dir);
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
