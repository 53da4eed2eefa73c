#include "client/dpctl/run/spawn_advice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr char kSpawns[] = R"(
os.environ["MASTER_PORT"] = "12355"
mp.spawn(train, args=(2,), nprocs=2))";

v1::JobSpec Job(const std::string& contract, const std::string& store, int ranks) {
  v1::JobSpec spec;
  spec.set_ranks(ranks);
  spec.mutable_command()->set_contract(contract);
  spec.mutable_command()->set_store(store);
  return spec;
}

TEST(SpawnRemedyTest, AProgramThatHostsItsOwnStoreIsKnownByItsText) {
  EXPECT_THAT(SpawnRemedy(Job("torchrun", "relay", 1), kSpawns), HasSubstr("--store program"));
  EXPECT_THAT(SpawnRemedy(Job("launch", "rank0", 2), kSpawns), HasSubstr("with one rank"));
  EXPECT_EQ(SpawnRemedy(Job("torchrun", "relay", 1), "mp.spawn(train)"), "");
  EXPECT_EQ(SpawnRemedy(Job("torchrun", "relay", 1), "MASTER_PORT"), "");
  EXPECT_EQ(SpawnRemedy(Job("torchrun", "relay", 1), ""), "");
}

TEST(SpawnRemedyTest, WhereItsOwnStoreServesThereIsNothingToSay) {
  EXPECT_EQ(SpawnRemedy(Job("torchrun", "program", 1), kSpawns), "");
  EXPECT_EQ(SpawnRemedy(Job("plain", "relay", 1), kSpawns), "");
}

TEST(SilenceAdviceTest, ItIsSaidOnceAfterTenSecondsOfSilence) {
  const absl::Time start = absl::UnixEpoch();
  SilenceAdvice advice("give --store program");
  EXPECT_EQ(advice.DueIn(start), absl::InfiniteDuration());  // nothing runs yet
  advice.SilentSince(start);
  advice.SilentSince(start + absl::Seconds(4));  // a rank wrote
  EXPECT_EQ(advice.DueIn(start + absl::Seconds(11)), absl::Seconds(3));
  EXPECT_EQ(advice.Due(start + absl::Seconds(13)), std::nullopt);
  EXPECT_THAT(advice.Due(start + absl::Seconds(14)),
              Optional(std::string("no output for 10s: give --store program")));
  EXPECT_EQ(advice.Due(start + absl::Seconds(60)), std::nullopt);
  EXPECT_EQ(advice.DueIn(start + absl::Seconds(60)), absl::InfiniteDuration());
}

TEST(SilenceAdviceTest, WithoutARemedySilenceIsNobodysBusiness) {
  SilenceAdvice advice("");
  advice.SilentSince(absl::UnixEpoch());
  EXPECT_EQ(advice.Due(absl::UnixEpoch() + absl::Hours(1)), std::nullopt);
}

}  // namespace
}  // namespace dp::ctl
