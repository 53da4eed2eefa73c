#include "client/job/yaml_message.h"

#include "client/job/nearest_name.h"
#include "dp/v1/jobs.pb.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

// Types that no job file has yet.
TEST(YamlMessageTest, EnumsGoByTheirNamesWithoutPrefix) {
  FieldSource source("file");
  v1::Rank rank;
  ASSERT_TRUE(FillMessage(YAML::Load("{rank: 3, state: Joined}"), source, rank).ok());
  EXPECT_EQ(rank.state(), v1::RANK_STATE_JOINED);
  const absl::Status status = FillMessage(YAML::Load("state: asleep"), source, rank);
  EXPECT_EQ(status.message(),
            "file:1:8: state is \"asleep\"; expected one of assigned, started, joined, exited, "
            "released, lost");
}

TEST(YamlMessageTest, RepeatedScalarsAreLists) {
  FieldSource source("file");
  v1::Failure failure;
  ASSERT_TRUE(FillMessage(YAML::Load("lastLines: [a, b]"), source, failure).ok());
  EXPECT_EQ(failure.last_lines_size(), 2);
  const absl::Status status = FillMessage(YAML::Load("lastLines: [[a]]"), source, failure);
  EXPECT_EQ(status.message(), "file:1:13: lastLines[0] is a list; expected text");
}

TEST(NearestNameTest, TheNearestNameWinsAndAStrangerHasNone) {
  const std::vector<std::string> names = {"epochs", "maxSteps", "seed"};
  EXPECT_EQ(NearestName("epocs", names), "epochs");
  EXPECT_EQ(NearestName("max_steps", names), "maxSteps");
  EXPECT_EQ(NearestName("sede", names), "seed");
  EXPECT_EQ(NearestName("optimizer", names), "");
  EXPECT_EQ(NearestName("prun", {"run", "prune"}), "prune");
  EXPECT_EQ(NearestName("prun", {"prune", "run"}), "prune");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(NearestName(std::string(100000, 'e'), names), "");
}

}  // namespace
}  // namespace dp::client
