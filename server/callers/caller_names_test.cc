#include "server/callers/caller_names.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace dp::server {
namespace {

// Three ranks: two on node1, one on node2.
class CallerNamesTest : public ::testing::Test {
 protected:
  CallerNamesTest() {
    for (const char* worker : {"node1", "node1", "node2"}) {
      core::Rank rank;
      rank.worker = worker;
      rank.address = worker == std::string("node1") ? "10.0.0.1" : "10.0.0.2";
      job_.ranks.push_back(rank);
    }
  }
  std::string Who(const std::string& peer) const {
    return CallerNames(job_, ranks_).who({.who = "a rank", .peer = peer, .since = {}});
  }

  core::Job job_;
  std::map<std::string, int> ranks_;
};

TEST_F(CallerNamesTest, ARankIsNamedWithTheWorkerThatHasItWhoeverServesIt) {
  ranks_ = {{"10.0.0.2:40312", 2}, {"10.0.0.1:40312", 1}};
  EXPECT_EQ(Who("10.0.0.2:40312"), "rank 2 on node2");
  EXPECT_EQ(Who("10.0.0.1:40312"), "rank 1 on node1");
}

TEST_F(CallerNamesTest, WhereOnlyTheAddressIsKnownTheWorkerIsNamed) {
  ranks_ = {{"10.0.0.2:40312", 2}};
  EXPECT_EQ(Who("10.0.0.2:40313"), "a rank on node2");
  job_.ranks[2].address = "fd00::2";
  EXPECT_EQ(Who("[fd00::2]:40313"), "a rank on node2");
}

TEST_F(CallerNamesTest, AnAddressOfTwoWorkersOrOfNoneNamesNobody) {
  job_.ranks[2].address = "10.0.0.1";
  EXPECT_EQ(Who("10.0.0.1:40312"), "a rank");
  EXPECT_EQ(Who("10.0.0.9:40312"), "a rank");
  EXPECT_EQ(Who("nonsense"), "a rank");
}

TEST_F(CallerNamesTest, WhoIsKnownToItsServerIsWhatThatSays) {
  EXPECT_EQ(CallerNames(job_, {}).who({.who = "rank 1 on node1", .rank = 1, .since = {}}),
            "rank 1 on node1");
}

}  // namespace
}  // namespace dp::server
