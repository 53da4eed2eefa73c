#include "worker/library/agreement/group_agreement.h"

#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/failure.h"

namespace dp::library {
namespace {

using ::testing::ElementsAre;

class GroupAgreementTest : public ::testing::Test {
 protected:
  absl::Status Ask(int rank, const std::vector<int>& members,
                   absl::Duration timeout = absl::Minutes(1)) {
    return AgreeOnGroup(keys_, {rank, members, absl::StrCat("gives ", absl::StrJoin(members, ","))},
                        "new_group 1", timeout);
  }
  // All ask at the same time; a rank that needs no peer gets its answer first.
  std::map<int, absl::Status> AskAll(const std::map<int, std::vector<int>>& lists) {
    std::map<int, absl::Status> answers;
    for (const auto& [rank, list] : lists) answers[rank] = absl::UnknownError("no answer");
    std::vector<std::jthread> threads;
    for (const auto& [rank, list] : lists)
      threads.emplace_back(
          [this, rank = rank, &list = list, &answer = answers[rank]] { answer = Ask(rank, list); });
    threads.clear();
    return answers;
  }

  HashStore keys_;
};

TEST_F(GroupAgreementTest, MembersOfOneGroupAgreeAndOthersDoNotWait) {
  EXPECT_EQ(Ask(2, {0, 1}), absl::OkStatus());  // before anybody else
  for (const auto& [rank, answer] : AskAll({{0, {0, 1}}, {1, {0, 1}}, {3, {0, 1}}}))
    EXPECT_EQ(answer, absl::OkStatus()) << rank;
}

TEST_F(GroupAgreementTest, ADifferenceReachesTheRankThatWaitsAndTheOneThatComes) {
  absl::Status waiting;
  std::jthread first([&] { waiting = Ask(0, {0, 1}); });
  ASSERT_TRUE(keys_.Get("consents", absl::Minutes(1)).ok());
  const absl::Status coming = Ask(1, {1, 0});
  first.join();
  for (const absl::Status& answer : {waiting, coming}) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(answer.message(), "new_group 1: rank 0 gives 0,1, rank 1 gives 1,0");
  }
}

TEST_F(GroupAgreementTest, EveryMemberLearnsThatTwoOthersDiffer) {
  const std::map<int, absl::Status> answers =
      AskAll({{0, {0, 1, 2, 3}}, {1, {0, 1, 2, 3}}, {2, {0, 1, 2, 3}}, {3, {0, 3}}});
  for (const auto& [rank, answer] : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kInvalidArgument) << rank << " " << answer;
    EXPECT_THAT(std::string(answer.message()), ::testing::HasSubstr("gives 0,1,2,3"));
    EXPECT_THAT(std::string(answer.message()), ::testing::HasSubstr("rank 3 gives 0,3"));
  }
}

TEST_F(GroupAgreementTest, ARankWhoseOwnListLacksItDiffersToo) {
  ASSERT_EQ(Ask(1, {0, 2}), absl::OkStatus());  // it is the first, and no member
  const std::map<int, absl::Status> answers = AskAll({{0, {0, 1, 2}}, {2, {0, 2}}});
  for (const auto& [rank, answer] : answers)
    EXPECT_EQ(answer.message(), "new_group 1: rank 1 gives 0,2, rank 0 gives 0,1,2") << rank;
}

TEST_F(GroupAgreementTest, ARankThatComesAfterTheDifferenceLearnsIt) {
  std::jthread one([&] { EXPECT_FALSE(Ask(0, {0, 1, 2}).ok()); });
  ASSERT_TRUE(keys_.Get("consents", absl::Minutes(1)).ok());
  std::jthread two([&] { EXPECT_FALSE(Ask(2, {1, 2}).ok()); });
  ASSERT_TRUE(keys_.Get("answered", absl::Minutes(1)).ok());
  EXPECT_EQ(Ask(1, {0, 1, 2}).message(), "new_group 1: rank 0 gives 0,1,2, rank 2 gives 1,2");
}

TEST_F(GroupAgreementTest, ATimeoutNamesTheMembersThatDidNotCome) {
  ASSERT_EQ(Ask(3, {0, 1, 2}), absl::OkStatus());
  const absl::Status late = Ask(1, {0, 1, 2}, absl::Milliseconds(50));
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.message(), "new_group 1: ranks 0, 2 did not arrive within 50ms");
  EXPECT_THAT(engine::MissingRanks(late), ElementsAre(0, 2));
}

TEST_F(GroupAgreementTest, KeysOfSomethingElseAreNamed) {
  ASSERT_TRUE(keys_.Set("first", "7").ok());
  EXPECT_EQ(Ask(0, {0}).message(), "'7' in the store is no group of a rank");
}

}  // namespace
}  // namespace dp::library
