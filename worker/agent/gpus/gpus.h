#pragma once

#include <string>
#include <vector>

#include "worker/agent/gpus/gpu_inventory.h"
#include "worker/core/gpu_health.h"

namespace dp::worker {

// The variables that limit CUDA's view of devices; null: not set.
struct CudaLimit {
  const char* visible = nullptr;  // CUDA_VISIBLE_DEVICES
  const char* order = nullptr;    // CUDA_DEVICE_ORDER
};

// The GPUs that ranks of this host may use, as entries of CUDA_VISIBLE_DEVICES: by UUID, in the bus
// order of `on_bus`. If the daemon's own CUDA_VISIBLE_DEVICES is set, only the GPUs that it lists,
// in its order and also by UUID. Its numbers stay as they are if it is unknown which devices they
// name. CUDA counts along the bus if CUDA_DEVICE_ORDER is PCI_BUS_ID, otherwise from the fastest
// GPU. The order is also known if all GPUs are of one model. Pure.
std::vector<std::string> FindGpus(const CudaLimit& limit, const std::vector<InstalledGpu>& on_bus);

// Why FindGpus omits entries of the limit, for example "CUDA_VISIBLE_DEVICES=abc names abc, which
// is no GPU here; nothing behind it counts". Empty if it omits none. Pure.
std::string WhyLeftOut(const CudaLimit& limit, const std::vector<InstalledGpu>& on_bus);

// The output of --list-gpus: "2 GPUs that ranks may use, by nvml" and a line for each, "GPU-aaaa
// NVIDIA H100". Without GPUs: "0 GPUs that ranks may use: " and the reason. `usable` is FindGpus'
// result for `found`, `left_out` is WhyLeftOut's. Pure.
std::string GpuLines(const GpuInventory& found, const std::vector<std::string>& usable,
                     const std::string& left_out = "");

// Reads the models of these devices from the driver's folder in /proc.
std::vector<GpuReading> ReadProcGpus(const std::vector<std::string>& names,
                                     const std::string& driver_dir);

}  // namespace dp::worker
