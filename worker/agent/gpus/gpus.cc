#include "worker/agent/gpus/gpus.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace dp::worker {
namespace {

bool NumbersAreKnown(const char* order, const std::vector<InstalledGpu>& on_bus) {
  if (order != nullptr && absl::string_view(order) == "PCI_BUS_ID") return true;
  return absl::c_all_of(
      on_bus, [&on_bus](const InstalledGpu& each) { return each.model == on_bus[0].model; });
}

// The full name of a listed device; empty: CUDA finds no such device. MIG devices are unknown here.
// If one GPU's UUID is unknown, any UUID may be that GPU's.
std::string FullName(const std::string& listed, bool numbers_known,
                     const std::vector<InstalledGpu>& on_bus) {
  size_t number = 0;
  if (absl::SimpleAtoi(listed, &number)) {
    if (!numbers_known) return listed;
    if (number >= on_bus.size()) return "";
    return on_bus[number].uuid.empty() ? listed : on_bus[number].uuid;
  }
  // CUDA accepts a UUID that is cut short.
  for (const InstalledGpu& device : on_bus) {
    if (absl::StartsWith(device.uuid, listed)) return device.uuid;
  }
  const bool unknown_here =
      absl::c_any_of(on_bus, [](const InstalledGpu& device) { return device.uuid.empty(); });
  const bool may_be_one =
      absl::StartsWith(listed, "MIG-") || (unknown_here && absl::StartsWith(listed, "GPU-"));
  return may_be_one ? listed : "";
}

struct ListedDevices {
  std::vector<std::string> names;
  std::vector<std::string> twice;  // entries of devices that are listed already
  std::string unknown;             // the entry that names no device, which ends the list
};

// Reads the list as CUDA does: it ends at the first entry that names no device.
ListedDevices ListedGpus(const CudaLimit& limit, const std::vector<InstalledGpu>& on_bus) {
  const bool numbers_known = NumbersAreKnown(limit.order, on_bus);
  ListedDevices devices;
  for (const absl::string_view each : absl::StrSplit(limit.visible, ',')) {
    const std::string listed(absl::StripAsciiWhitespace(each));
    if (listed.empty() || listed == "-1" || listed == "NoDevFiles") break;
    const std::string device = FullName(listed, numbers_known, on_bus);
    if (device.empty()) {
      devices.unknown = listed;
      break;
    }
    const bool known = absl::c_linear_search(devices.names, device);
    (known ? devices.twice : devices.names).push_back(known ? listed : device);
  }
  return devices;
}

}  // namespace

std::vector<std::string> FindGpus(const CudaLimit& limit, const std::vector<InstalledGpu>& on_bus) {
  if (on_bus.empty()) return {};
  if (limit.visible != nullptr) return ListedGpus(limit, on_bus).names;
  std::vector<std::string> devices;
  for (size_t i = 0; i < on_bus.size(); ++i) {
    devices.push_back(on_bus[i].uuid.empty() ? absl::StrCat(i) : on_bus[i].uuid);
  }
  return devices;
}

std::string WhyLeftOut(const CudaLimit& limit, const std::vector<InstalledGpu>& on_bus) {
  if (on_bus.empty() || limit.visible == nullptr) return "";
  const ListedDevices listed = ListedGpus(limit, on_bus);
  std::vector<std::string> reasons;
  if (!listed.twice.empty()) {
    reasons.push_back(
        absl::StrCat("names ", absl::StrJoin(listed.twice, ", "), " again, which counts once"));
  }
  if (!listed.unknown.empty()) {
    reasons.push_back(
        absl::StrCat("names ", listed.unknown, ", which is no GPU here; nothing behind it counts"));
  }
  if (listed.names.empty() && reasons.empty()) {
    return absl::StrCat("CUDA_VISIBLE_DEVICES names none of the ", on_bus.size(), " here");
  }
  return reasons.empty() ? ""
                         : absl::StrCat("CUDA_VISIBLE_DEVICES=", limit.visible, " ",
                                        absl::StrJoin(reasons, ", and "));
}

std::string GpuLines(const GpuInventory& found, const std::vector<std::string>& usable,
                     const std::string& left_out) {
  std::string lines =
      absl::StrCat(usable.size(), usable.size() == 1 ? " GPU" : " GPUs", " that ranks may use");
  if (usable.empty()) {
    const std::string hidden =
        absl::StrCat("CUDA_VISIBLE_DEVICES names none of the ", found.gpus.size(), " here");
    const std::string why = left_out.empty() ? hidden : left_out;
    return absl::StrCat(lines, ": ", found.gpus.empty() ? found.why_not : why, "\n");
  }
  absl::StrAppend(&lines, ", by ", found.listed_by,
                  found.why_not.empty() ? "" : absl::StrCat(" (", found.why_not, ")"),
                  left_out.empty() ? "" : absl::StrCat("; ", left_out), "\n");
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
