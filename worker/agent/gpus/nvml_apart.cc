#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "worker/agent/gpus/gpu_inventory.h"
#include "worker/agent/processes/run_program.h"

namespace dp::worker {
namespace {

// The first words of lines. The library's own output begins with none of them.
constexpr char kGpuWord[] = "nvml-gpu";
constexpr char kLostWord[] = "nvml-lost";
constexpr char kWhyNotWord[] = "nvml-why-not";
constexpr char kInstead[] = "; it is left alone, and nvidia-smi and /proc are asked instead";

}  // namespace

absl::StatusOr<NvmlInventory> InventoryInNvmlLines(const std::string& library,
                                                   absl::string_view output) {
  NvmlInventory found;
  bool complete = false;
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    const std::vector<std::string> cells = absl::StrSplit(line, '\t');
    if (cells.size() == 4 && cells[0] == kGpuWord) {
      found.gpus.push_back({.bus_id = cells[1], .uuid = cells[2], .model = cells[3]});
    }
    if (cells.size() != 2) continue;
    if (cells[0] == kWhyNotWord) return absl::UnavailableError(cells[1]);
    if (cells[0] == kLostWord) {
      complete = absl::SimpleAtoi(cells[1], &found.lost) && found.lost >= 0;
    }
  }
  if (complete) return found;
  return absl::UnavailableError(absl::StrCat(library, ": no answer"));
}

std::string NvmlLines(const absl::StatusOr<NvmlInventory>& found) {
  if (!found.ok()) return absl::StrCat("\n", kWhyNotWord, "\t", found.status().message(), "\n");
  std::string lines = "\n";  // ends a line that the library may have begun
  for (const InstalledGpu& gpu : found->gpus) {
    absl::StrAppend(&lines, kGpuWord, "\t", gpu.bus_id, "\t", gpu.uuid, "\t", gpu.model, "\n");
  }
  return absl::StrCat(lines, kLostWord, "\t", found->lost, "\n");
}

absl::StatusOr<NvmlInventory> ListByNvmlApart(const GpuInventorySources& sources) {
  DP_ASSIGN_OR_RETURN(
      const ProgramEnd end,
      RunProgram({sources.nvml_lister, "--list-nvml", sources.nvml}, sources.nvml_patience));
  if (end.timed_out) {
    return absl::DeadlineExceededError(absl::StrCat(sources.nvml, " hangs: no answer within ",
                                                    absl::FormatDuration(sources.nvml_patience),
                                                    kInstead));
  }
  if (end.signal != 0) {
    return absl::InternalError(
        absl::StrCat(sources.nvml, " crashes, by signal ", end.signal, kInstead));
  }
  return InventoryInNvmlLines(sources.nvml, end.output);
}

}  // namespace dp::worker
