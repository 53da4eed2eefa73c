#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/testing/scratch_dir.h"
#include "client/dpctl/testing/dpctl_test.h"
#include "proto/weights/safetensors.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class WeightsTest : public DpctlTest {
 protected:
  std::string Write(const std::string& name, const std::vector<float>& weight,
                    const std::string& bias = "bias") {
    const std::vector<float> one = {1};
    const std::string path = dir_.path() / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << EncodeSafetensors(
        {{"weight", {static_cast<int64_t>(weight.size())}, weight}, {bias, {1}, one}});
    return path;
  }

  dp::ScratchDir dir_;
};

TEST_F(WeightsTest, EqualFilesAreASuccess) {
  const std::string a = Write("a", {1, 2}), b = Write("b", {1, 2});
  const Result result = Dpctl("weights diff " + a + " " + b);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "all 2 tensors are equal, bit for bit\n");
}

TEST_F(WeightsTest, DifferencesAreATableAndTheCodeIsThatOfDiff) {
  const std::string a = Write("a", {1, 2}), b = Write("b", {1, 4}, "offset");
  const Result result = Dpctl("weights diff " + a + " " + b);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out,
            "TENSOR  IN A   IN B   ELEMENTS  MAX ABSOLUTE  MAX RELATIVE\n"
            "bias    F32 1  -      -         -             -\n"
            "offset  -      F32 1  -         -             -\n"
            "weight  F32 2  F32 2  1         2             0.5\n");
  EXPECT_EQ(result.err, "3 of 3 tensors differ\n");
}

TEST_F(WeightsTest, NamesAreThoseOfTensorsThatDiffer) {
  const Result result = Dpctl("weights diff -o name " + Write("a", {1}) + " " + Write("b", {2}));
  EXPECT_EQ(result.out, "weight\n");
}

TEST_F(WeightsTest, JsonHasAllTensors) {
  const Result result = Dpctl("weights diff -o json " + Write("a", {1}) + " " + Write("b", {2}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("\"equal\": false"));
  EXPECT_THAT(result.out, HasSubstr("\"kind\": \"equal\""));
  EXPECT_THAT(result.out, HasSubstr("\"maxAbsolute\": 1"));
}

TEST_F(WeightsTest, ACheckpointIsItsModelsFile) {
  const std::string a = Write("a", {1});
  Write("step/model.safetensors", {1});
  EXPECT_EQ(Dpctl("weights diff " + a + " " + std::string(dir_.path() / "step")).code, 0);
}

TEST_F(WeightsTest, AFileThatIsNoneIsAUsageErrorThatNamesIt) {
  const std::string a = Write("a", {1});
  const Result missing = Dpctl("weights diff " + a + " /no/such");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("/no/such"));
  std::ofstream(dir_.path() / "text") << "text";
  const Result text = Dpctl("weights diff " + a + " " + std::string(dir_.path() / "text"));
  EXPECT_EQ(text.code, 2);
  EXPECT_THAT(text.err, HasSubstr("text: no safetensors file"));
}

}  // namespace
}  // namespace dp::ctl
