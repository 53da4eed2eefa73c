#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/agent/gpus/gpu_inventory.h"
#include "worker/core/gpu_health.h"

// Reads what nvidia-smi prints with --format=csv,noheader,nounits. Lines of another form are
// messages, and are left out. Pure.

namespace dp::worker {

// Only fields that every release knows: nvidia-smi answers nothing at all if it does not know one.
inline constexpr char kSmiReadingFields[] =
    "index,uuid,name,memory.total,memory.used,utilization.gpu,temperature.gpu,"
    "ecc.errors.uncorrected.volatile.total,retired_pages.pending";
inline constexpr char kSmiListFields[] = "pci.bus_id,uuid,name";

// Each GPU in a table of kSmiReadingFields, by UUID and by number. A cell that holds no number, or
// one that no GPU has, leaves its field absent.
std::map<std::string, GpuReading> ReadingsInSmiTable(absl::string_view table);

// The GPUs in a table of kSmiListFields.
std::vector<InstalledGpu> GpusInSmiTable(absl::string_view table);

// A cell with a number of MiB, in bytes.
std::optional<int64_t> BytesOfSmiMib(absl::string_view cell);

}  // namespace dp::worker
