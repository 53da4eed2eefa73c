// Prints what a training step must move and compute, and the least time that it takes on a card of
// given rates. Measurements are compared with that expectation. Needs no GPU.
//
//   step_cost [--preset gpt2-124m] [--batch 64] [--tokens 1024] [--precision bf16]
//             [--gb-per-second 3000] [--tflops 700] [--attention-tflops 280]
//
// The defaults are what an H100 is known to reach, not its nominal rates.

#include "worker/engine/device/cuda/step/cuda_step_cost.h"

#include <cstdio>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace dp::engine::cuda {
namespace {

constexpr int kClasses = 10;
constexpr int kVocabulary = 50257;
const model::Shape kImage = {1, 28, 28};

struct Options {
  std::map<std::string, std::string> flags = {{"--preset", "gpt2-124m"},    {"--batch", "64"},
                                              {"--tokens", "1024"},         {"--precision", "bf16"},
                                              {"--gb-per-second", "3000"},  {"--tflops", "700"},
                                              {"--attention-tflops", "280"}};

  const std::string& text(const std::string& flag) const { return flags.at(flag); }
  double number(const std::string& flag) const {
    double value = 0;
    DP_CHECK(absl::SimpleAtod(text(flag), &value) && value > 0);
    return value;
  }
  Precision precision() const {
    if (text("--precision") == "bf16") return Precision::kBfloat16;
    return text("--precision") == "tf32" ? Precision::kTf32 : Precision::kFloat32;
  }
  bool of_text() const { return text("--preset").rfind("gpt", 0) == 0; }
};

absl::StatusOr<LayerProgram> Plan(const Options& options) {
  DP_ASSIGN_OR_RETURN(const auto specs, model::Preset(options.text("--preset")));
  DP_ASSIGN_OR_RETURN(const auto layers,
                      options.of_text()
                          ? model::CheckLanguageModel(
                                specs, static_cast<int>(options.number("--tokens")), kVocabulary)
                          : model::CheckClassifier(specs, kImage, kClasses));
  return PlanLayers(layers, {.network = {.batch_size = static_cast<int>(options.number("--batch")),
                                         .precision = options.precision()}});
}

void Print(const std::string& name, const CostRow& row) {
  std::printf("%-32s %5d %8d %10.3f %12.3f %9.3f\n", name.c_str(), row.count, row.cost.launches,
              static_cast<double>(row.cost.bytes) / 1e9, static_cast<double>(row.cost.flops) / 1e9,
              row.seconds * 1e3);
}

absl::Status PrintTable(const Options& options) {
  DP_ASSIGN_OR_RETURN(const LayerProgram program, Plan(options));
  const CardRates rates = {.bytes = options.number("--gb-per-second") * 1e9,
                           .flops = options.number("--tflops") * 1e12,
                           .attention_flops = options.number("--attention-tflops") * 1e12};
  std::printf("%-32s %5s %8s %10s %12s %9s\n", "operation", "count", "launches", "GB", "GFLOP",
              "ms");
  CostRow all = {.name = "step"};
  for (const CostRow& row : StepCosts(program, rates, /*state_floats=*/options.of_text() ? 2 : 1)) {
    Print(row.name, row);
    all.count += row.count;
    all.cost.bytes += row.cost.bytes;
    all.cost.flops += row.cost.flops;
    all.cost.launches += row.cost.launches;
    all.seconds += row.seconds;
  }
  Print(all.name, all);
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
