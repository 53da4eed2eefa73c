#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What is known of a GPU, and whether ranks should be given it. Pure.

namespace dp::worker {

// One GPU as its driver describes it. What is absent the driver does not say, or was not asked by
// this way (`read_by`).
struct GpuReading {
  std::string name;          // as CUDA_VISIBLE_DEVICES has it
  std::string read_by = {};  // "nvml", "nvidia-smi" or "proc"
  std::string model = {};
  std::optional<int64_t> memory_bytes = {};
  std::optional<int64_t> memory_used_bytes = {};
  std::optional<int> utilisation_percent = {};
  std::optional<int> temperature_celsius = {};
  std::optional<uint64_t> slowdowns = {};          // why its clocks are held down, as NVML's bits
  std::optional<int64_t> uncorrected_errors = {};  // of its memory, since it was last reset
  std::optional<bool> repair_pending = {};         // its next reset takes bad memory out of use
  std::optional<bool> repair_failed = {};          // none is left to put in its place
  // The driver's number of its gravest trouble since this daemon began to look; 0: there was none.
  std::optional<int> xid = {};
  // Why the driver will not work with it any more, in its words; empty: it will.
  std::string lost = {};

  bool operator==(const GpuReading&) const = default;
};

struct GpuHealthLimits {
  int64_t uncorrected_errors_max = 0;
};

// Why ranks should not be given it, with what would help; empty: nothing is known against it. How
// hot or slow it is, and a repair that waits, are shown but are no reasons.
std::string WhyUnfit(const GpuReading& gpu, const GpuHealthLimits& limits);

// After such trouble a GPU does not work until it is reset. Most numbers are a program's own fault.
bool NeedsReset(int xid);

// What holds its clocks down, in words; idleness and limits that somebody set do not count.
std::vector<std::string> SlowdownNames(uint64_t slowdowns);

}  // namespace dp::worker
