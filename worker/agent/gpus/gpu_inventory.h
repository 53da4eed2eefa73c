#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// The GPUs of this host. The daemon lists them once, at its start.

namespace dp::worker {

// One GPU as the driver describes it. A field that the driver does not report is empty.
struct InstalledGpu {
  std::string bus_id;  // as OrderedBusId returns it
  std::string uuid;
  std::string model;

  friend bool operator==(const InstalledGpu&, const InstalledGpu&) = default;
};

struct GpuInventory {
  std::vector<InstalledGpu> gpus;  // in bus order
  std::string listed_by;           // nvml, nvidia-smi or proc; empty: there are none
  std::string why_not;             // why earlier sources, or all, know no GPU
  std::string nvml_fault;          // why it must not be loaded (hangs, crashes); else empty
};

// The sources. NVML, then nvidia-smi, then the folder are asked; the first that knows any GPU
// decides.
struct GpuInventorySources {
  std::string nvml = "libnvidia-ml.so.1";
  std::string nvml_lister = "/proc/self/exe";        // a dp-worker
  absl::Duration nvml_patience = absl::Seconds(20);  // waking a driver takes a second or two
  std::string nvidia_smi = "nvidia-smi";             // searched for in PATH
  std::string driver_dir = "/proc/driver/nvidia/gpus";
};

// Not every driver has a folder in /proc (gVisor, WSL), and not every container has nvidia-smi. If
// NVML counts a GPU but has lost it, the folder names the GPU, so that it is listed as unfit.
GpuInventory TakeGpuInventory(const GpuInventorySources& sources);

// GPUs in no particular order.
struct NvmlInventory {
  std::vector<InstalledGpu> gpus;
  int lost = 0;  // GPUs that NVML counts but cannot describe
};
// Loads the library into this process; calls block as long as the driver does. Errors: those of
// NvmlLibrary.
absl::StatusOr<NvmlInventory> ListByNvml(const std::string& library);
// Runs ListByNvml in a process of its own, `sources.nvml_lister --list-nvml LIBRARY`, which may
// hang or crash. Errors: DeadlineExceeded it hangs; Internal it crashes; else Unavailable with its
// reason.
absl::StatusOr<NvmlInventory> ListByNvmlApart(const GpuInventorySources& sources);
// The output of that process: a line for each GPU, or why there are none.
std::string NvmlLines(const absl::StatusOr<NvmlInventory>& found);
// The inventory in that output, in which the library may have printed lines of its own. Pure.
// Errors: Unavailable the output reports an error, or is not complete.
absl::StatusOr<NvmlInventory> InventoryInNvmlLines(const std::string& library,
                                                   absl::string_view output);
// Runs nvidia-smi. In no particular order. Errors: Unavailable with its reason.
absl::StatusOr<std::vector<InstalledGpu>> ListBySmi(const std::string& program);
// In bus order; empty if there is no such folder.
std::vector<InstalledGpu> ListByProc(const std::string& driver_dir);

// "0000:C1:00.0" and "00000000:c1:00.0" are one place. Returns the latter form, which sorts in bus
// order.
std::string OrderedBusId(const std::string& bus_id);

}  // namespace dp::worker
