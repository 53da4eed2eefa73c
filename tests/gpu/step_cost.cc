// Prints what a training step must move and compute, and the least time that it takes on a card of
// given rates. Measurements are compared with that expectation. Needs no GPU.
//
//   step_cost [--preset gpt2-124m] [--batch 64] [--tokens 1024] [--precision bf16]
//             [--gb-per-second 3000] [--tflops 700] [--attention-tflops 280]
//             [--apart-tflops 600] [--apart-attention-tflops 250]
//
// The column `fused` is the best case: products have their epilogues, at the rates that an H100 is
// known to reach in its best shapes. In the column `apart` epilogues are kernels of their own, and
// products and attention have the rates of common shapes.

#include "worker/engine/device/cuda/step/cuda_step_cost.h"

#include <cstdio>
#include <map>
#include <string>
#include <vector>

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
  std::map<std::string, std::string> flags = {{"--preset", "gpt2-124m"},
                                              {"--batch", "64"},
                                              {"--tokens", "1024"},
                                              {"--precision", "bf16"},
                                              {"--gb-per-second", "3000"},
                                              {"--tflops", "700"},
                                              {"--attention-tflops", "280"},
                                              {"--apart-tflops", "600"},
                                              {"--apart-attention-tflops", "250"}};

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

void Print(const CostRow& fused, double apart_seconds) {
  std::printf("%-32s %5d %8d %10.3f %12.3f %9.3f %9.3f\n", fused.name.c_str(), fused.count,
              fused.cost.launches, static_cast<double>(fused.cost.bytes) / 1e9,
              static_cast<double>(fused.cost.flops) / 1e9, fused.seconds * 1e3,
              apart_seconds * 1e3);
}

absl::Status PrintTable(const Options& options) {
  DP_ASSIGN_OR_RETURN(const LayerProgram program, Plan(options));
  const double bytes = options.number("--gb-per-second") * 1e9;
  const auto rows = [&](bool fused) {
    const std::string prefix = fused ? "--" : "--apart-";
    const CardRates rates = {
        .bytes = bytes,
        .flops = options.number(absl::StrCat(prefix, "tflops")) * 1e12,
        .attention_flops = options.number(absl::StrCat(prefix, "attention-tflops")) * 1e12,
        .fused = fused};
    return StepCosts(program, rates, /*state_floats=*/options.of_text() ? 2 : 1);
  };
  const std::vector<CostRow> fused = rows(true), apart = rows(false);
  std::printf("%-32s %5s %8s %10s %12s %9s %9s\n", "operation", "count", "launches", "GB", "GFLOP",
              "fused ms", "apart ms");
  CostRow all = {.name = "step"};
  double all_apart = 0;
  for (size_t i = 0; i < fused.size(); ++i) {
    const CostRow& row = fused[i];
    Print(row, apart[i].seconds);
    all.count += row.count;
    all.cost.bytes += row.cost.bytes;
    all.cost.flops += row.cost.flops;
    all.cost.launches += row.cost.launches;
    all.seconds += row.seconds;
    all_apart += apart[i].seconds;
  }
  Print(all, all_apart);
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
