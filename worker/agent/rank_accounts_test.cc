#include "worker/agent/rank_accounts.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

v1::AssignedRank OwnedBy(const std::string& owner) {
  v1::AssignedRank rank;
  rank.set_job(7);
  rank.set_owner(owner);
  return rank;
}

class RankAccountsTest : public testing::Test {
 protected:
  RankAccounts With(RunAs run_as) {
    return RankAccounts(std::move(run_as),
                        [this](const std::string& name) { asked_.push_back(name); });
  }

  std::vector<std::string> asked_;
  RankAccounts accounts_ = With({.kind = RunAs::Kind::kOwner});
};

TEST_F(RankAccountsTest, RanksOfTheDaemonsUserNeedNoLookUp) {
  RankAccounts self = With({});
  EXPECT_TRUE(self.Known(OwnedBy("ann")));
  EXPECT_FALSE(self.Of(OwnedBy("ann"), "w")->has_value());
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(RankAccountsTest, TheRanksOfOneOwnerShareAQuestion) {
  EXPECT_FALSE(accounts_.Known(OwnedBy("ann")));
  EXPECT_FALSE(accounts_.Known(OwnedBy("bob")));
  EXPECT_FALSE(accounts_.Known(OwnedBy("ann")));
  EXPECT_THAT(asked_, ElementsAre("ann", "bob"));
}

TEST_F(RankAccountsTest, ARankHasTheAccountThatWasFound) {
  EXPECT_FALSE(accounts_.Known(OwnedBy("ann")));
  accounts_.Found("ann", Account{.name = "ann", .uid = 1000});
  EXPECT_TRUE(accounts_.Known(OwnedBy("ann")));
  EXPECT_EQ((*accounts_.Of(OwnedBy("ann"), "w"))->uid, 1000u);
}

TEST_F(RankAccountsTest, ANewRankIsLookedUpAnew) {
  accounts_.Found("ann", Account{.name = "ann", .uid = 1000});
  accounts_.Assigned(OwnedBy("ann"));
  EXPECT_FALSE(accounts_.Known(OwnedBy("ann")));
  EXPECT_THAT(asked_, ElementsAre("ann"));
}

TEST_F(RankAccountsTest, AnAnswerToAnEarlierQuestionIsTooOldForANewRank) {
  EXPECT_FALSE(accounts_.Known(OwnedBy("ann")));
  accounts_.Assigned(OwnedBy("ann"));
  EXPECT_FALSE(accounts_.Known(OwnedBy("ann")));
  accounts_.Found("ann", Account{.name = "ann", .uid = 1000});
  EXPECT_FALSE(accounts_.Known(OwnedBy("ann")));
  EXPECT_THAT(asked_, ElementsAre("ann", "ann"));
  accounts_.Found("ann", Account{.name = "ann", .uid = 1001});
  EXPECT_TRUE(accounts_.Known(OwnedBy("ann")));
  EXPECT_EQ((*accounts_.Of(OwnedBy("ann"), "w"))->uid, 1001u);
}

TEST_F(RankAccountsTest, AccountsAreForgottenWithTheirRanks) {
  accounts_.Found("ann", Account{.name = "ann", .uid = 1000});
  accounts_.Found("bob", Account{.name = "bob", .uid = 1001});
  accounts_.KeepFor({{RankKey(), OwnedBy("bob")}});
  EXPECT_TRUE(accounts_.Known(OwnedBy("bob")));
  EXPECT_FALSE(accounts_.Known(OwnedBy("ann")));
}

TEST_F(RankAccountsTest, AJobWithoutAnOwnerIsRefusedWithoutALookUp) {
  EXPECT_TRUE(accounts_.Known(OwnedBy("")));
  EXPECT_THAT(std::string(accounts_.Of(OwnedBy(""), "w").status().message()),
              HasSubstr("belongs to nobody"));
  EXPECT_TRUE(accounts_.Known(v1::AssignedRank()));
  EXPECT_THAT(std::string(accounts_.Of(v1::AssignedRank(), "w").status().message()),
              HasSubstr("upgrade the coordinator"));
}

TEST_F(RankAccountsTest, AnOwnerCannotBeNamedLikeAPolicy) {
  EXPECT_FALSE(accounts_.Known(OwnedBy("self")));
  EXPECT_THAT(asked_, ElementsAre("self"));
}

}  // namespace
}  // namespace dp::worker
