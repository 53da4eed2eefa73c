#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

// Which GPUs this host has. Asked once, at the daemon's start.

namespace dp::worker {

// What the driver says of one; empty is what it does not say.
struct InstalledGpu {
  std::string bus_id;  // as OrderedBusId has it
  std::string uuid;
  std::string model;

  friend bool operator==(const InstalledGpu&, const InstalledGpu&) = default;
};

struct GpuInventory {
  std::vector<InstalledGpu> gpus;  // in the order of the bus
  std::string listed_by;           // nvml, nvidia-smi or proc; empty: there are none
  std::string why_not;             // of those that were asked before, or of all
  std::string nvml_fault;          // it hangs or crashes, and must not be loaded; else empty
};

// Who is asked, in this order; the first that knows any GPU is believed.
struct GpuInventorySources {
  std::string nvml = "libnvidia-ml.so.1";
  std::string nvml_lister = "/proc/self/exe";        // a dp-worker
  absl::Duration nvml_patience = absl::Seconds(20);  // it takes a second or two to wake a driver
  std::string nvidia_smi = "nvidia-smi";             // searched for in PATH
  std::string driver_dir = "/proc/driver/nvidia/gpus";
};

// Not every driver has a folder in /proc (gVisor, WSL), nor every container nvidia-smi. GPUs that
// NVML counts but has lost are named by the folder, so that they are there as unfit ones.
GpuInventory TakeGpuInventory(const GpuInventorySources& sources);

// In no order. Errors: of the library, or of the program. The library is loaded into this process,
// and calls block for as long as the driver does.
struct NvmlInventory {
  std::vector<InstalledGpu> gpus;
  int lost = 0;  // that it counts, and does not describe
};
absl::StatusOr<NvmlInventory> ListByNvml(const std::string& library);
// The same by a process of its own, `sources.nvml_lister --list-nvml LIBRARY`, which may hang or
// crash. Errors: DeadlineExceeded it hangs, Internal it crashes; else as ListByNvml's.
absl::StatusOr<NvmlInventory> ListByNvmlApart(const GpuInventorySources& sources);
// What that process prints: a line for each GPU, or why there are none.
std::string NvmlLines(const absl::StatusOr<NvmlInventory>& found);
absl::StatusOr<std::vector<InstalledGpu>> ListBySmi(const std::string& program);
// In the order of the bus; empty where there is no such folder.
std::vector<InstalledGpu> ListByProc(const std::string& driver_dir);

// "0000:C1:00.0" and "00000000:c1:00.0" are one place: both become the latter, whose order is that
// of the bus.
std::string OrderedBusId(const std::string& bus_id);

}  // namespace dp::worker
