#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/engine/device/cuda/layers/cuda_layers.h"
#include "worker/engine/device/testing/conformance_cases.h"
#include "worker/engine/device/testing/tolerance.h"

// docs/conformance.md has the table that follows from the cases of the suites, and from what the
// planner accepts.

namespace dp::engine::cuda {
namespace {

std::vector<model::CheckedLayer> LayersOf(const LayerCase& each) {
  constexpr int kTokens = 5, kOutputs = 10;
  return each.of_tokens ? *model::CheckLanguageModel(each.layers, kTokens, kOutputs)
                        : *model::CheckShapes(model::WithOutputs(each.layers, kOutputs), each.in);
}

std::string Row(const std::string& name, bool on_gpus) {
  const auto gpu = [&](Precision precision) {
    return on_gpus ? absl::StrCat(ToleranceOf(precision)) : std::string("no");
  };
  return absl::StrCat("| ", name, " | defines | ", ToleranceOf(Precision::kBfloat16), " | ",
                      gpu(Precision::kFloat32), " | ", gpu(Precision::kTf32), " | ",
                      gpu(Precision::kBfloat16), " |\n");
}

std::string Table() {
  std::string table =
      "| layer or loss | CPU, float32 | CPU, bf16 | GPU, float32 | GPU, tf32 | GPU, bf16 |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (const LayerCase& each : LayerCases()) {
    absl::StrAppend(&table,
                    Row(each.name, CheckPlannable(LayersOf(each), CrossEntropyLoss()).ok()));
  }
  for (const LossCase& each : LossCases()) {
    absl::StrAppend(&table, Row(each.name, CheckPlannable({}, each.loss).ok()));
  }
  return table;
}

TEST(ConformancePageTest, HasTheTableOfTheCases) {
  std::ifstream file(DP_CONFORMANCE_PAGE);
  ASSERT_TRUE(file) << DP_CONFORMANCE_PAGE;
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(absl::StrContains(page.str(), Table())) << "docs/conformance.md needs this table:\n"
                                                      << Table();
}

template <size_t... kIndex>
std::set<std::string> AllKinds(std::index_sequence<kIndex...>) {
  return {std::variant_alternative_t<kIndex, model::LayerKind>::kName...};
}

TEST(ConformancePageTest, EveryKindOfLayerIsInACase) {
  std::set<std::string> tried = {model::Plugin::kName};  // its users try their own
  for (const LayerCase& each : LayerCases()) {
    for (const model::LayerSpec& spec : each.layers) {
      tried.insert(std::string(model::KindName(spec.kind)));
    }
  }
  constexpr size_t kKinds = std::variant_size_v<model::LayerKind>;
  EXPECT_EQ(tried, AllKinds(std::make_index_sequence<kKinds>()));
}

TEST(ConformancePageTest, EveryLossIsInACase) {
  std::set<size_t> tried;
  for (const LossCase& each : LossCases()) tried.insert(each.loss.index());
  EXPECT_EQ(tried.size(), std::variant_size_v<Loss>);
}

}  // namespace
}  // namespace dp::engine::cuda
