#include "worker/agent/gpus/gpu_inventory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "worker/agent/gpus/nvml_library.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

using InventoryHandle = NvmlLibrary::Handle;
using InventoryResult = NvmlLibrary::Result;

constexpr size_t kBusIdBytes = 16;
constexpr unsigned int kTextBytes = 96;

// nvmlPciInfo_t, as NVML has declared it since release 384.
struct PciInfo {
  char bus_id_legacy[16];
  unsigned int domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

// Reads lines such as "GPU UUID:  GPU-2f5a...".
InstalledGpu GpuIn(const fs::path& folder) {
  InstalledGpu gpu{.bus_id = OrderedBusId(folder.filename()), .uuid = "", .model = ""};
  std::ifstream file(folder / "information");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() != 2) continue;
    const std::string value(absl::StripAsciiWhitespace(parts[1]));
    if (parts[0] == "Model") gpu.model = value;
    if (parts[0] == "GPU UUID" && !absl::StrContains(value, "?")) gpu.uuid = value;
  }
  return gpu;
}

void SortByBus(std::vector<InstalledGpu>* gpus) {
  std::stable_sort(gpus->begin(), gpus->end(), [](const InstalledGpu& a, const InstalledGpu& b) {
    return a.bus_id < b.bus_id;
  });
}

void AddThoseOnlyIn(const std::vector<InstalledGpu>& folder, std::vector<InstalledGpu>* gpus) {
  const std::vector<InstalledGpu> listed = *gpus;
  for (const InstalledGpu& gpu : folder) {
    const bool known = absl::c_any_of(
        listed, [&gpu](const InstalledGpu& each) { return each.bus_id == gpu.bus_id; });
    if (!known) gpus->push_back(gpu);
  }
}

// Every call but the count may be missing; the field is then empty.
class NvmlLister {
 public:
  explicit NvmlLister(const NvmlLibrary& nvml) : nvml_(nvml) {
    (void)nvml_.Find("nvmlDeviceGetUUID", &uuid_);
    (void)nvml_.Find("nvmlDeviceGetName", &name_);
    (void)nvml_.Find("nvmlDeviceGetPciInfo_v3", &pci_);
  }

  absl::StatusOr<NvmlInventory> List() const {
    InventoryResult (*count)(unsigned int*) = nullptr;
    DP_RETURN_IF_ERROR(nvml_.Find("nvmlDeviceGetCount_v2", &count));
    unsigned int number = 0;
    DP_RETURN_IF_ERROR(nvml_.Check(count(&number), "the number of GPUs"));
    NvmlInventory found;
    for (unsigned int i = 0; i < number; ++i) {
      InventoryHandle device = nullptr;
      const InventoryResult result = nvml_.HandleOf(absl::StrCat(i), &device);
      if (result == NvmlLibrary::kSuccess) found.gpus.push_back(Describe(device));
      if (result == NvmlLibrary::kGpuIsLost) ++found.lost;
    }
    return found;
  }

 private:
  InstalledGpu Describe(InventoryHandle device) const {
    char uuid[kTextBytes] = "", name[kTextBytes] = "";
    PciInfo pci{};
    // A call that fails leaves its text empty.
    if (uuid_ != nullptr) (void)uuid_(device, uuid, kTextBytes);
    if (name_ != nullptr) (void)name_(device, name, kTextBytes);
    if (pci_ != nullptr) (void)pci_(device, &pci);
    return {.bus_id = OrderedBusId(pci.bus_id), .uuid = uuid, .model = name};
  }

  const NvmlLibrary& nvml_;
  InventoryResult (*uuid_)(InventoryHandle, char*, unsigned int) = nullptr;
  InventoryResult (*name_)(InventoryHandle, char*, unsigned int) = nullptr;
  InventoryResult (*pci_)(InventoryHandle, PciInfo*) = nullptr;
};

}  // namespace

std::string OrderedBusId(const std::string& bus_id) {
  const size_t missing = kBusIdBytes - std::min(kBusIdBytes, bus_id.size());
  if (bus_id.empty()) return "";
  return absl::AsciiStrToLower(absl::StrCat(std::string(missing, '0'), bus_id));
}

absl::StatusOr<NvmlInventory> ListByNvml(const std::string& library) {
  DP_ASSIGN_OR_RETURN(const NvmlLibrary nvml, NvmlLibrary::Open(library));
  return NvmlLister(nvml).List();
}

std::vector<InstalledGpu> ListByProc(const std::string& driver_dir) {
  std::error_code error;
  std::vector<InstalledGpu> gpus;
  for (const auto& entry : fs::directory_iterator(driver_dir, error)) {
    gpus.push_back(GpuIn(entry.path()));
  }
  SortByBus(&gpus);
  return gpus;
}

GpuInventory TakeGpuInventory(const GpuInventorySources& sources) {
  std::vector<std::string> reasons;
  absl::StatusOr<NvmlInventory> nvml = ListByNvmlApart(sources);
  const bool faulty = absl::IsDeadlineExceeded(nvml.status()) || absl::IsInternal(nvml.status());
  const std::string fault = faulty ? std::string(nvml.status().message()) : "";
  if (nvml.ok()) {
    if (nvml->lost > 0) AddThoseOnlyIn(ListByProc(sources.driver_dir), &nvml->gpus);
    SortByBus(&nvml->gpus);
    if (!nvml->gpus.empty()) return {std::move(nvml->gpus), "nvml", "", ""};
  }
  const auto taken = [&](std::vector<InstalledGpu> gpus, const std::string& by) {
    SortByBus(&gpus);
    return GpuInventory{std::move(gpus), by, absl::StrJoin(reasons, "; "), fault};
  };
  reasons.push_back(nvml.ok() ? "NVML knows no GPU" : std::string(nvml.status().message()));
  absl::StatusOr<std::vector<InstalledGpu>> smi = ListBySmi(sources.nvidia_smi);
  if (smi.ok()) return taken(*std::move(smi), "nvidia-smi");
  reasons.emplace_back(smi.status().message());
  std::vector<InstalledGpu> proc = ListByProc(sources.driver_dir);
  if (!proc.empty()) return taken(std::move(proc), "proc");
  reasons.push_back(absl::StrCat(sources.driver_dir, " has none"));
  return taken({}, "");
}

}  // namespace dp::worker
