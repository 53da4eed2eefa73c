#include "worker/engine/device/cuda/plans/cuda_plan_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/device/cuda/plans/cuda_plan_file.h"

namespace dp::engine::cuda {
namespace {

using testing::ElementsAre;

constexpr char kCard[] = "card A, cublasLt 1";

class PlanCacheTest : public testing::Test {
 protected:
  ~PlanCacheTest() override { std::filesystem::remove_all(folder_); }

  PlanCache Open(const std::string& environment = kCard) { return {file_, environment}; }
  void Keep(const std::string& environment, const std::string& plan, const std::string& choice) {
    PlanCache cache = Open(environment);
    cache.Put(plan, choice);
    ASSERT_TRUE(cache.Save().ok());
  }
  std::string Text() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  void Write(const std::string& text) const {
    std::filesystem::create_directories(folder_);
    std::ofstream(file_, std::ios::binary) << text;
  }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "/plan_cache.", getpid());
  const std::string file_ = folder_ + "/deep/er/plans";
};

TEST_F(PlanCacheTest, AChoiceIsFoundAgainByTheNextProcess) {
  Keep(kCard, "gemm m=1", "7");
  EXPECT_EQ(Open().Find("gemm m=1"), "7");
  EXPECT_EQ(Open().Find("gemm m=2"), absl::nullopt);
}

TEST_F(PlanCacheTest, AnotherCardOrVersionDoesNotSeeIt) {
  Keep(kCard, "gemm m=1", "7");
  EXPECT_EQ(Open("card A, cublasLt 2").Find("gemm m=1"), absl::nullopt);
}

TEST_F(PlanCacheTest, WhatOneHasUsedIsTakenByAnotherInThePlaceOfItsOwn) {
  Keep(kCard, "not of this model", "3");
  PlanCache first = Open(), second = Open();
  first.Put("gemm", "7");
  second.Put("gemm", "8");
  second.Take(first.Used());
  EXPECT_EQ(second.Find("gemm"), "7");
  EXPECT_EQ(second.Used(), first.Used());
  EXPECT_EQ(ParsePlanFile(first.Used()).choices.size(), 1u);
  ASSERT_TRUE(second.Save().ok());
  EXPECT_EQ(Open().Find("gemm"), "7");
}

TEST_F(PlanCacheTest, WhatWasFoundIsUsed) {
  Keep(kCard, "gemm", "7");
  PlanCache cache = Open();
  EXPECT_TRUE(ParsePlanFile(cache.Used()).choices.empty());
  EXPECT_EQ(cache.Find("gemm"), "7");
  EXPECT_EQ(ParsePlanFile(cache.Used()).choices.size(), 1u);
}

TEST_F(PlanCacheTest, WhatIsOfAnotherCardOrDamagedIsNotTaken) {
  PlanCache other = Open("card B"), cache = Open();
  other.Put("gemm", "7");
  cache.Take(other.Used());
  cache.Take("no plans");
  EXPECT_EQ(cache.Find("gemm"), absl::nullopt);
}

TEST_F(PlanCacheTest, SavingLeavesTheChoicesOfOthers) {
  PlanCache first = Open();
  PlanCache second = Open("card B");
  first.Put("gemm", "1");
  second.Put("gemm", "2");
  ASSERT_TRUE(first.Save().ok());
  ASSERT_TRUE(second.Save().ok());
  EXPECT_EQ(Open().Find("gemm"), "1");
  EXPECT_EQ(Open("card B").Find("gemm"), "2");
}

TEST_F(PlanCacheTest, AFreshChoiceReplacesTheOld) {
  Keep(kCard, "gemm", "1");
  Keep(kCard, "gemm", "2");
  EXPECT_EQ(Open().Find("gemm"), "2");
  EXPECT_EQ(ParsePlanFile(Text()).choices.size(), 1);
}

TEST_F(PlanCacheTest, NothingNewWritesNothing) {
  Keep(kCard, "gemm", "1");
  std::filesystem::remove(file_);
  PlanCache cache = Open();
  ASSERT_TRUE(cache.Save().ok());
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(PlanCacheTest, WithoutAFileChoicesLastAsLongAsTheProcess) {
  PlanCache cache("", kCard);
  cache.Put("gemm", "1");
  EXPECT_TRUE(cache.Save().ok());
  EXPECT_EQ(cache.Find("gemm"), "1");
}

TEST_F(PlanCacheTest, AFileOfAnotherKindIsIgnoredAndReplaced) {
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path());
  Write(std::string("\x7f") + "ELF" + std::string(1000, '\0') + "\n\t\t\t\n");
  EXPECT_EQ(Open().Find("gemm"), absl::nullopt);
  Keep(kCard, "gemm", "1");
  EXPECT_EQ(Open().Find("gemm"), "1");
}

TEST_F(PlanCacheTest, AFolderInItsPlaceIsAnErrorOfSaveAlone) {
  std::filesystem::create_directories(file_ + "/in_the_way");
  PlanCache cache = Open();
  cache.Put("gemm", "1");
  const absl::Status saved = cache.Save();
  EXPECT_THAT(std::string(saved.message()), testing::HasSubstr(file_));
  EXPECT_EQ(cache.Find("gemm"), "1");
}

TEST_F(PlanCacheTest, PastTheBoundNewChoicesAreForgotten) {
  PlanCache cache("", kCard);
  for (int i = 0; i < kPlanCacheSizeMax; ++i) cache.Put(absl::StrCat(i), "1");
  cache.Put("one more", "1");
  cache.Put("0", "2");
  EXPECT_EQ(cache.Find("one more"), absl::nullopt);
  EXPECT_EQ(cache.Find("0"), "2");
}

TEST_F(PlanCacheTest, TheFileIsWhereTheUserSaysElseInTheCacheFolder) {
  setenv("HOME", "/home/a", 1);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("DP_CUDA_PLAN_CACHE");
  EXPECT_EQ(DefaultPlanCacheFile(), "/home/a/.cache/dp/cuda_plans");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(DefaultPlanCacheFile(), "/cache/dp/cuda_plans");
  setenv("DP_CUDA_PLAN_CACHE", "", 1);
  EXPECT_EQ(DefaultPlanCacheFile(), "");
}

const std::vector<PlanChoice> kTwo = {{"card", "gemm m=1", "ab12"}, {"card", "conv", "engine 3"}};

TEST(PlanFileTest, WhatIsPrintedIsParsed) {
  const PlanFile file = ParsePlanFile(PrintPlanFile(kTwo));
  EXPECT_EQ(file.choices, kTwo);
  EXPECT_EQ(file.damaged, 0);
}

TEST(PlanFileTest, CutAnywhereItKeepsWholeLines) {
  const std::string text = PrintPlanFile(kTwo);
  for (size_t size = 0; size < text.size(); ++size) {
    const PlanFile file = ParsePlanFile(absl::string_view(text).substr(0, size));
    const size_t kept = file.choices.size();
    EXPECT_TRUE(std::equal(file.choices.begin(), file.choices.end(), kTwo.begin())) << size;
    EXPECT_LE(kept, size + 1 < text.size() ? 1 : 2) << size;
  }
}

TEST(PlanFileTest, AnyFlippedBitCostsItsLineAlone) {
  const std::string text = PrintPlanFile(kTwo);
  const size_t first_line = text.find('\n');
  for (size_t i = first_line + 1; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const PlanFile file = ParsePlanFile(flipped);
      EXPECT_GE(file.damaged + (i + 1 == text.size() ? 1 : 0), 1) << i << " " << bit;
      for (const PlanChoice& each : file.choices) EXPECT_THAT(kTwo, testing::Contains(each));
    }
  }
}

TEST(PlanFileTest, ALineOfTooManyPartsIsDamaged) {
  EXPECT_EQ(ParsePlanFile("dp cuda plans 1\nx\ty\n\n").damaged, 2);
  EXPECT_THAT(ParsePlanFile("").choices, ElementsAre());
}

}  // namespace
}  // namespace dp::engine::cuda
