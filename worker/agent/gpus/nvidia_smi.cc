#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "worker/agent/gpus/device_memory.h"
#include "worker/agent/gpus/gpu_inventory.h"
#include "worker/agent/gpus/gpu_reader.h"
#include "worker/agent/gpus/gpus.h"
#include "worker/agent/processes/run_program.h"

namespace dp::worker {
namespace {

// An answer takes a second or two if the driver is not kept loaded.
constexpr absl::Duration kAnswerPatience = absl::Seconds(20);
// Only fields that every release knows: nvidia-smi answers nothing at all if it does not know one.
constexpr char kFields[] =
    "--query-gpu=index,uuid,name,memory.total,memory.used,utilization.gpu,temperature.gpu,"
    "ecc.errors.uncorrected.volatile.total,retired_pages.pending";
constexpr size_t kFieldCount = 9;
constexpr size_t kListFieldCount = 3;

class Smi final : public DeviceMemorySource {
 public:
  explicit Smi(std::string program) : program_(std::move(program)) {}

  absl::StatusOr<int64_t> BytesInUse(const std::string& device) override {
    DP_ASSIGN_OR_RETURN(const ProgramEnd end,
                        RunProgram({program_, "--id=" + device, "--query-gpu=memory.used",
                                    "--format=csv,noheader,nounits"},
                                   kAnswerPatience));
    const absl::string_view text = absl::StripAsciiWhitespace(end.output);
    int64_t mib = 0;
    if (absl::SimpleAtoi(text, &mib)) return mib << 20;
    return absl::UnavailableError(absl::StrCat(program_, " on ", device, ": ",
                                               text.empty() ? "no answer" : std::string(text)));
  }

 private:
  const std::string program_;
};

// "[N/A]" and "[Not Supported]" are not numbers.
template <typename Integer>
std::optional<Integer> IntegerIn(const std::string& cell) {
  Integer number = 0;
  return absl::SimpleAtoi(cell, &number) ? std::optional<Integer>(number) : std::nullopt;
}

std::optional<int64_t> MibIn(const std::string& cell) {
  const auto mib = IntegerIn<int64_t>(cell);
  return mib.has_value() ? std::optional<int64_t>(*mib << 20) : std::nullopt;
}

GpuReading ReadingOf(const std::vector<std::string>& cells) {
  GpuReading gpu{.read_by = "nvidia-smi",
                 .model = cells[2],
                 .memory_bytes = MibIn(cells[3]),
                 .memory_used_bytes = MibIn(cells[4]),
                 .utilisation_percent = IntegerIn<int>(cells[5]),
                 .temperature_celsius = IntegerIn<int>(cells[6]),
                 .uncorrected_errors = IntegerIn<int64_t>(cells[7])};
  if (cells[8] == "Yes" || cells[8] == "No") gpu.repair_pending = cells[8] == "Yes";
  return gpu;
}

std::vector<std::string> CellsOf(absl::string_view line) {
  std::vector<std::string> cells = absl::StrSplit(line, ',');
  for (std::string& cell : cells) cell = std::string(absl::StripAsciiWhitespace(cell));
  return cells;
}

// Each reading by UUID and by number.
std::map<std::string, GpuReading> ReadingsIn(absl::string_view table) {
  std::map<std::string, GpuReading> readings;
  for (const absl::string_view line : absl::StrSplit(table, '\n', absl::SkipWhitespace())) {
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.size() != kFieldCount) continue;  // a message
    for (const std::string& name : {cells[0], cells[1]}) {
      readings[name] = ReadingOf(cells);
      readings[name].name = name;
    }
  }
  return readings;
}

class SmiReader final : public GpuReader {
 public:
  SmiReader(std::string driver_dir, std::string program)
      : driver_dir_(std::move(driver_dir)), program_(std::move(program)) {}

  std::vector<GpuReading> Read(const std::vector<std::string>& names) override {
    const auto end =
        RunProgram({program_, kFields, "--format=csv,noheader,nounits"}, kAnswerPatience);
    const auto readings = ReadingsIn(end.ok() ? end->output : "");
    std::vector<GpuReading> gpus = ReadProcGpus(names, driver_dir_);
    for (GpuReading& gpu : gpus) {
      const auto told = readings.find(gpu.name);
      if (told != readings.end()) gpu = told->second;
    }
    return gpus;
  }

 private:
  const std::string driver_dir_;
  const std::string program_;
};

}  // namespace

absl::StatusOr<std::vector<InstalledGpu>> ListBySmi(const std::string& program) {
  DP_ASSIGN_OR_RETURN(const ProgramEnd end, RunProgram({program, "--query-gpu=pci.bus_id,uuid,name",
                                                        "--format=csv,noheader"},
                                                       kAnswerPatience));
  std::vector<InstalledGpu> gpus;
  for (const absl::string_view line : absl::StrSplit(end.output, '\n', absl::SkipWhitespace())) {
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.size() != kListFieldCount || !absl::StartsWith(cells[1], "GPU-")) continue;
    gpus.push_back({.bus_id = OrderedBusId(cells[0]), .uuid = cells[1], .model = cells[2]});
  }
  if (!gpus.empty()) return gpus;
  const absl::string_view said = absl::StripAsciiWhitespace(end.output);
  return absl::UnavailableError(absl::StrCat(program, ": ", said.empty() ? "no answer" : said));
}

std::unique_ptr<DeviceMemorySource> NvidiaSmi(std::string program) {
  return std::make_unique<Smi>(std::move(program));
}

std::unique_ptr<GpuReader> SmiGpus(std::string driver_dir, std::string program) {
  return std::make_unique<SmiReader>(std::move(driver_dir), std::move(program));
}

}  // namespace dp::worker
