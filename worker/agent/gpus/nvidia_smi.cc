#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/agent/gpus/device_memory.h"
#include "worker/agent/gpus/gpu_inventory.h"
#include "worker/agent/gpus/gpu_reader.h"
#include "worker/agent/gpus/gpus.h"
#include "worker/agent/gpus/smi_table.h"
#include "worker/agent/processes/run_program.h"

namespace dp::worker {
namespace {

// An answer takes a second or two if the driver is not kept loaded.
constexpr absl::Duration kAnswerPatience = absl::Seconds(20);

class Smi final : public DeviceMemorySource {
 public:
  explicit Smi(std::string program) : program_(std::move(program)) {}

  absl::StatusOr<int64_t> BytesInUse(const std::string& device) override {
    DP_ASSIGN_OR_RETURN(const ProgramEnd end,
                        RunProgram({program_, "--id=" + device, "--query-gpu=memory.used",
                                    "--format=csv,noheader,nounits"},
                                   kAnswerPatience));
    const absl::string_view text = absl::StripAsciiWhitespace(end.output);
    if (const auto bytes = BytesOfSmiMib(text); bytes.has_value()) return *bytes;
    return absl::UnavailableError(absl::StrCat(program_, " on ", device, ": ",
                                               text.empty() ? "no answer" : std::string(text)));
  }

 private:
  const std::string program_;
};

class SmiReader final : public GpuReader {
 public:
  SmiReader(std::string driver_dir, std::string program)
      : driver_dir_(std::move(driver_dir)), program_(std::move(program)) {}

  std::vector<GpuReading> Read(const std::vector<std::string>& names) override {
    const auto end = RunProgram({program_, absl::StrCat("--query-gpu=", kSmiReadingFields),
                                 "--format=csv,noheader,nounits"},
                                kAnswerPatience);
    const auto readings = ReadingsInSmiTable(end.ok() ? end->output : "");
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
  DP_ASSIGN_OR_RETURN(
      const ProgramEnd end,
      RunProgram({program, absl::StrCat("--query-gpu=", kSmiListFields), "--format=csv,noheader"},
                 kAnswerPatience));
  std::vector<InstalledGpu> gpus = GpusInSmiTable(end.output);
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
