#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The reading of a GPU, and whether ranks may use it. Pure.

namespace dp::worker {

// One GPU as its driver describes it. A field is absent if the driver does not report it, or if the
// way of reading (`read_by`) does not ask for it.
struct GpuReading {
  std::string name;          // as in CUDA_VISIBLE_DEVICES
  std::string read_by = {};  // "nvml", "nvidia-smi" or "proc"
  std::string model = {};
  std::optional<int64_t> memory_bytes = {};
  std::optional<int64_t> memory_used_bytes = {};
  std::optional<int> utilisation_percent = {};
  std::optional<int> temperature_celsius = {};
  std::optional<uint64_t> slowdowns = {};          // why its clocks are held down, as bits of NVML
  std::optional<int64_t> uncorrected_errors = {};  // in its memory, since its last reset
  std::optional<bool> repair_pending = {};         // its next reset takes bad memory out of use
  std::optional<bool> repair_failed = {};          // no spare memory is left
  // The Xid of its gravest error since this daemon started to look; 0: none.
  std::optional<int> xid = {};
  // Why the driver no longer works with the GPU, in the driver's words; empty: it does.
  std::string lost = {};

  bool operator==(const GpuReading&) const = default;
};

struct GpuHealthLimits {
  int64_t uncorrected_errors_max = 0;
};

// Why ranks should not use the GPU, and the remedy; empty if nothing speaks against it. Heat,
// slowdowns and a pending repair are shown, but are no reasons.
std::string WhyUnfit(const GpuReading& gpu, const GpuHealthLimits& limits);

// Whether the GPU works again only after a reset. Most Xids are a program's own fault.
bool NeedsReset(int xid);

// The causes that hold its clocks down. Idleness and limits set by people do not count.
std::vector<std::string> SlowdownNames(uint64_t slowdowns);

}  // namespace dp::worker
