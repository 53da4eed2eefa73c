#include "worker/core/gpu_health.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dp::worker {
namespace {

struct Trouble {
  int xid;
  absl::string_view what;
};

// The errors of NVIDIA's catalogue that last until a reset. Contained memory errors are not among
// them: they count as uncorrected errors.
constexpr std::array<Trouble, 8> kNeedReset = {{
    {62, "a controller of the GPU has halted"},
    {64, "bad memory could not be taken out of use"},
    {74, "NVLink"},
    {79, "it fell off the bus"},
    {95, "a memory error that could not be contained"},
    {119, "its system processor does not answer"},
    {120, "its system processor has failed"},
    {140, "memory errors that it cannot recover from"},
}};

const Trouble* FindTrouble(int xid) {
  const auto* found = std::find_if(kNeedReset.begin(), kNeedReset.end(),
                                   [xid](const Trouble& each) { return each.xid == xid; });
  return found == kNeedReset.end() ? nullptr : found;
}

struct Slowdown {
  uint64_t bit;
  const char* name;
};

constexpr std::array<Slowdown, 5> kSlowdowns = {{
    {0x4, "power cap"},
    {0x20, "heat"},
    {0x40, "heat (hardware)"},
    {0x80, "power brake"},
    {0x8, "hardware"},
}};
// Set beside the bit that names the part of the hardware.
constexpr uint64_t kSomeHardware = 0x8;
constexpr uint64_t kWhichHardware = 0x40 | 0x80;

constexpr absl::string_view kReset =
    "reset it (nvidia-smi --gpu-reset) or restart the host, then dp-worker";

}  // namespace

bool NeedsReset(int xid) { return FindTrouble(xid) != nullptr; }

std::string WhyUnfit(const GpuReading& gpu, const GpuHealthLimits& limits) {
  if (!gpu.lost.empty()) {
    return absl::StrCat("is lost to its driver (", gpu.lost, "): ", kReset);
  }
  if (const Trouble* trouble = FindTrouble(gpu.xid.value_or(0))) {
    return absl::StrCat("had Xid ", trouble->xid, " (", trouble->what, "): ", kReset);
  }
  if (gpu.repair_failed.value_or(false)) {
    return "has bad memory and no spare memory left: have it replaced";
  }
  const int64_t errors = gpu.uncorrected_errors.value_or(0);
  if (errors <= limits.uncorrected_errors_max) return "";
  return absl::StrCat("has had ", errors, " uncorrected memory error", errors == 1 ? "" : "s",
                      ": reset it (nvidia-smi --gpu-reset), or allow as many with "
                      "--gpu-errors-max");
}

std::vector<std::string> SlowdownNames(uint64_t slowdowns) {
  if ((slowdowns & kWhichHardware) != 0) slowdowns &= ~kSomeHardware;
  std::vector<std::string> names;
  for (const Slowdown& each : kSlowdowns) {
    if ((slowdowns & each.bit) != 0) names.emplace_back(each.name);
  }
  return names;
}

}  // namespace dp::worker
