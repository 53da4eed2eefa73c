#pragma once

#include <string>
#include <vector>

#include "worker/agent/gpu_inventory.h"
#include "worker/core/gpu_health.h"

namespace dp::worker {

// How CUDA is told to see devices; null: not told.
struct CudaLimit {
  const char* visible = nullptr;  // CUDA_VISIBLE_DEVICES
  const char* order = nullptr;    // CUDA_DEVICE_ORDER
};

// The GPUs that ranks of this host may use, as CUDA_VISIBLE_DEVICES names them: by UUID, in the
// order of the bus, which is that of `on_bus`, those of this host. Where the daemon's own
// CUDA_VISIBLE_DEVICES is set, those that stand there, by UUID too. Numbers are kept as they are
// only where it is not known which device they name: CUDA counts from the fastest, unless
// CUDA_DEVICE_ORDER is PCI_BUS_ID, so the order is known where all are of one model. Pure.
std::vector<std::string> FindGpus(const CudaLimit& limit, const std::vector<InstalledGpu>& on_bus);

// Why entries of the limit are not among those, as "CUDA_VISIBLE_DEVICES=abc names abc, which is no
// GPU here; nothing behind it counts"; empty: all are. Pure.
std::string WhyLeftOut(const CudaLimit& limit, const std::vector<InstalledGpu>& on_bus);

// For people and scripts: "2 GPUs that ranks may use, by nvml" and a line for each, "GPU-aaaa
// NVIDIA H100"; or "0 GPUs that ranks may use: " and why; `left_out` is WhyLeftOut's. `usable` is
// what FindGpus makes of `found`. Pure.
std::string GpuLines(const GpuInventory& found, const std::vector<std::string>& usable,
                     const std::string& left_out = "");

// What the driver's folder in /proc says of devices named so: their model.
std::vector<GpuReading> ReadProcGpus(const std::vector<std::string>& names,
                                     const std::string& driver_dir);

}  // namespace dp::worker
