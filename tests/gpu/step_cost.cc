// Prints what a training step must move and compute, and the least time that it takes on a card of
// given rates. Where there is a GPU, prints the measured time of each operation beside that.
//
//   step_cost [--preset gpt2-124m] [--batch 64] [--tokens 1024] [--precision bf16]
//             [--gb-per-second 3000] [--tflops 700] [--attention-tflops 280]
//             [--apart-tflops 600] [--apart-attention-tflops 250] [--rounds 10]
//
// The column `fused` is the best case: products have their epilogues, at the rates that an H100 is
// known to reach in its best shapes. In the column `apart` epilogues are kernels of their own, and
// products and attention have the rates of common shapes. The column `measured` has the median of
// --rounds steps; 0 measures none. Operations that the card runs otherwise than expected have rows
// of their own at the end, with a measured time alone.

#include "worker/engine/device/cuda/step/cuda_step_cost.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/step/cuda_step_times.h"

namespace dp::engine::cuda {
namespace {

constexpr int kClasses = 10;
constexpr int kVocabulary = 50257;
const model::Shape kImage = {1, 28, 28};

struct Options {
  std::map<std::string, std::string> flags = {{"--preset", "gpt2-124m"},
                                              {"--batch", "64"},
                                              {"--tokens", "1024"},
                                              {"--precision", "bf16"},
                                              {"--gb-per-second", "3000"},
                                              {"--tflops", "700"},
                                              {"--attention-tflops", "280"},
                                              {"--apart-tflops", "600"},
                                              {"--apart-attention-tflops", "250"},
                                              {"--rounds", "10"}};

  const std::string& text(const std::string& flag) const { return flags.at(flag); }
  double number(const std::string& flag) const {
    double value = 0;
    DP_CHECK(absl::SimpleAtod(text(flag), &value) && value > 0);
    return value;
  }
  int rounds() const {
    int value = 0;
    DP_CHECK(absl::SimpleAtoi(text("--rounds"), &value) && value >= 0);
    return value;
  }
  Precision precision() const {
    if (text("--precision") == "bf16") return Precision::kBfloat16;
    return text("--precision") == "tf32" ? Precision::kTf32 : Precision::kFloat32;
  }
  bool of_text() const { return text("--preset").rfind("gpt", 0) == 0; }
};

using Layers = std::vector<model::CheckedLayer>;

absl::StatusOr<Layers> LayersOf(const Options& options) {
  DP_ASSIGN_OR_RETURN(const auto specs, model::Preset(options.text("--preset")));
  if (!options.of_text()) return model::CheckClassifier(specs, kImage, kClasses);
  return model::CheckLanguageModel(specs, static_cast<int>(options.number("--tokens")),
                                   kVocabulary);
}

NetworkOptions NetworkOf(const Options& options) {
  return {.batch_size = static_cast<int>(options.number("--batch")),
          .precision = options.precision()};
}

std::vector<CostRow> Expected(const Options& options, const LayerProgram& program, bool fused) {
  const std::string prefix = fused ? "--" : "--apart-";
  const CardRates rates = {
      .bytes = options.number("--gb-per-second") * 1e9,
      .flops = options.number(absl::StrCat(prefix, "tflops")) * 1e12,
      .attention_flops = options.number(absl::StrCat(prefix, "attention-tflops")) * 1e12,
      .fused = fused};
  return StepCosts(program, rates, /*state_floats=*/options.of_text() ? 2 : 1);
}

// Empty, with a line on standard error, where nothing can be measured.
std::vector<TimeRow> Measured(const Options& options, const Layers& layers) {
  if (options.rounds() == 0) return {};
  const auto rows = MeasureStep(layers, NetworkOf(options),
                                {.adamw = options.of_text(), .rounds = options.rounds()});
  if (rows.ok()) return *rows;
  std::fprintf(stderr, "step_cost: nothing is measured: %s\n",
               std::string(rows.status().message()).c_str());
  return {};
}

std::string InMs(double seconds) { return absl::StrFormat("%.3f", seconds * 1e3); }

// The table with its columns of times, of which the measured one may be missing.
class Table {
 public:
  explicit Table(std::vector<TimeRow> measured)
      : measured_(std::move(measured)), with_measured_(!measured_.empty()) {
    std::printf("%-32s %5s %8s %10s %12s %9s %9s%s\n", "operation", "count", "launches", "GB",
                "GFLOP", "fused ms", "apart ms", with_measured_ ? " measured ms" : "");
  }

  void Print(const CostRow& fused, double apart_seconds) {
    PrintRow(fused, apart_seconds, TakeMeasured(fused.name));
    all_.count += fused.count;
    all_.cost.bytes += fused.cost.bytes;
    all_.cost.flops += fused.cost.flops;
    all_.cost.launches += fused.cost.launches;
    all_.seconds += fused.seconds;
    all_apart_ += apart_seconds;
  }
  // The operations that were measured and not expected, then the sums.
  void End() {
    for (const TimeRow& row : measured_) {
      std::printf("%-32s %5s %8s %10s %12s %9s %9s %11s\n", row.name.c_str(), "-", "-", "-", "-",
                  "-", "-", InMs(row.seconds).c_str());
      all_measured_ += row.seconds;
    }
    PrintRow(all_, all_apart_, InMs(all_measured_));
  }

 private:
  void PrintRow(const CostRow& fused, double apart_seconds, const std::string& measured) const {
    std::printf("%-32s %5d %8d %10.3f %12.3f %9s %9s", fused.name.c_str(), fused.count,
                fused.cost.launches, static_cast<double>(fused.cost.bytes) / 1e9,
                static_cast<double>(fused.cost.flops) / 1e9, InMs(fused.seconds).c_str(),
                InMs(apart_seconds).c_str());
    if (with_measured_) std::printf(" %11s", measured.c_str());
    std::printf("\n");
  }
  std::string TakeMeasured(const std::string& name) {
    const auto found = std::find_if(measured_.begin(), measured_.end(),
                                    [&](const TimeRow& row) { return row.name == name; });
    if (found == measured_.end()) return "-";
    const double seconds = found->seconds;
    all_measured_ += seconds;
    measured_.erase(found);
    return InMs(seconds);
  }

  std::vector<TimeRow> measured_;  // not printed yet
  const bool with_measured_;
  CostRow all_ = {.name = "step"};
  double all_apart_ = 0;
  double all_measured_ = 0;
};

absl::Status PrintTable(const Options& options) {
  DP_ASSIGN_OR_RETURN(const Layers layers, LayersOf(options));
  const LayerProgram program = PlanLayers(layers, {.network = NetworkOf(options)});
  const std::vector<CostRow> fused = Expected(options, program, true);
  const std::vector<CostRow> apart = Expected(options, program, false);
  Table table(Measured(options, layers));
  for (size_t i = 0; i < fused.size(); ++i) table.Print(fused[i], apart[i].seconds);
  table.End();
  std::printf("arena: %.2f GB\n", static_cast<double>(PlanArena(program).bytes) / 1e9);
  return absl::OkStatus();
}

int Main(int count, char** words) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    DP_CHECK(options.flags.count(words[i]) == 1);
    options.flags[words[i]] = words[i + 1];
  }
  const absl::Status printed = PrintTable(options);
  if (printed.ok()) return 0;
  std::fprintf(stderr, "step_cost: %s\n", std::string(printed.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace dp::engine::cuda

int main(int count, char** words) { return dp::engine::cuda::Main(count, words); }
