#include "worker/agent/gpus/smi_table.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace dp::worker {
namespace {

constexpr size_t kReadingFieldCount = 9;
constexpr size_t kListFieldCount = 3;
constexpr int kMibShift = 20;

// "[N/A]" and "[Not Supported]" are not numbers.
template <typename Integer>
std::optional<Integer> IntegerIn(absl::string_view cell) {
  Integer number = 0;
  const bool good = absl::SimpleAtoi(cell, &number) && number >= 0;
  return good ? std::optional<Integer>(number) : std::nullopt;
}

GpuReading ReadingOf(const std::vector<std::string>& cells) {
  GpuReading gpu{.read_by = "nvidia-smi",
                 .model = cells[2],
                 .memory_bytes = BytesOfSmiMib(cells[3]),
                 .memory_used_bytes = BytesOfSmiMib(cells[4]),
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

}  // namespace

std::optional<int64_t> BytesOfSmiMib(absl::string_view cell) {
  const auto mib = IntegerIn<int64_t>(cell);
  if (!mib.has_value() || *mib > std::numeric_limits<int64_t>::max() >> kMibShift) {
    return std::nullopt;
  }
  return *mib << kMibShift;
}

std::map<std::string, GpuReading> ReadingsInSmiTable(absl::string_view table) {
  std::map<std::string, GpuReading> readings;
  for (const absl::string_view line : absl::StrSplit(table, '\n', absl::SkipWhitespace())) {
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.size() != kReadingFieldCount) continue;
    for (const std::string& name : {cells[0], cells[1]}) {
      readings[name] = ReadingOf(cells);
      readings[name].name = name;
    }
  }
  return readings;
}

std::vector<InstalledGpu> GpusInSmiTable(absl::string_view table) {
  std::vector<InstalledGpu> gpus;
  for (const absl::string_view line : absl::StrSplit(table, '\n', absl::SkipWhitespace())) {
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.size() != kListFieldCount || !absl::StartsWith(cells[1], "GPU-")) continue;
    gpus.push_back({.bus_id = OrderedBusId(cells[0]), .uuid = cells[1], .model = cells[2]});
  }
  return gpus;
}

}  // namespace dp::worker
