#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/scenarios/script.h"

// Runs every script of this folder and compares the machine's answers with those in the file.
// `dp_scenarios_test --rewrite` writes the new answers: read the difference before you commit it.

namespace dp::scenarios {

bool rewrite = false;

namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::filesystem::path> Scripts() {
  std::vector<std::filesystem::path> scripts;
  for (const auto& entry : std::filesystem::directory_iterator(DP_SCENARIOS_DIR)) {
    if (entry.path().extension() == ".scenario") scripts.push_back(entry.path());
  }
  std::sort(scripts.begin(), scripts.end());
  return scripts;
}

class ScenarioTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(ScenarioTest, TheMachineReactsAsWritten) {
  const std::string written = ReadFile(GetParam());
  const std::string annotated = Script().Annotate(written);
  if (rewrite) std::ofstream(GetParam()) << annotated;
  EXPECT_FALSE(absl::StrContains(annotated, "BROKEN"));
  EXPECT_FALSE(absl::StrContains(annotated, "ANOTHER STATE"));
  EXPECT_FALSE(absl::StrContains(annotated, "the script has a mistake"));
  EXPECT_EQ(annotated, rewrite ? annotated : written);
}

// gtest takes letters, digits and underscores: 01_one_job.
std::string NameOf(const testing::TestParamInfo<std::filesystem::path>& script) {
  std::string name = script.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Scenarios, ScenarioTest, testing::ValuesIn(Scripts()), NameOf);

}  // namespace
}  // namespace dp::scenarios

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--rewrite") dp::scenarios::rewrite = true;
  }
  return RUN_ALL_TESTS();
}
