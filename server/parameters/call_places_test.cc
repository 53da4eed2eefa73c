#include "server/parameters/call_places.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;

class CallPlacesTest : public ::testing::Test {
 protected:
  std::string Take(const std::string& caller) {
    auto place = places_.Take(caller);
    if (!place.ok()) return std::string(place.status().message());
    taken_.push_back(*std::move(place));
    return "ok";
  }
  void Await(const std::string& caller, const std::string& call) {
    places_.Await(caller, [this, call](CallPlaces::Place place) {
      served_.push_back(call);
      awaited_[call] = std::move(place);
    });
  }

  void End(const std::string& call) {
    const CallPlaces::Place place = std::move(awaited_[call]);
    awaited_.erase(call);
  }

  CallPlaces places_{/*all_max=*/3, /*of_caller_max=*/2, "calls that wait"};
  std::vector<CallPlaces::Place> taken_;
  std::map<std::string, CallPlaces::Place> awaited_;
  std::vector<std::string> served_;
};

TEST_F(CallPlacesTest, OneCallerLeavesPlacesForOthers) {
  EXPECT_EQ(Take("ann"), "ok");
  EXPECT_EQ(Take("ann"), "ok");
  EXPECT_EQ(Take("ann"), "ann has 2 calls that wait, which is the limit; try again later");
  EXPECT_EQ(Take("bob"), "ok");
  EXPECT_EQ(Take("bob"),
            "the coordinator has 3 calls that wait, which is the limit; try again later");
  taken_.pop_back();
  EXPECT_EQ(Take("bob"), "ok");
}

TEST_F(CallPlacesTest, CallersWithoutANameCountAmongAll) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Take(""), "ok");
  EXPECT_NE(Take(""), "ok");
}

TEST_F(CallPlacesTest, CallsWaitForTheirTurn) {
  for (const char* call : {"1", "2", "3", "4", "5"}) Await("", call);
  EXPECT_THAT(served_, ElementsAre("1", "2", "3"));
  End("2");
  EXPECT_THAT(served_, ElementsAre("1", "2", "3", "4"));
  End("1");
  EXPECT_EQ(served_.back(), "5");
  EXPECT_EQ(places_.taken(), 3);
}

TEST_F(CallPlacesTest, ACallerAtItsBoundIsPassed) {
  for (const char* call : {"1", "2", "3"}) Await("ann", call);
  Await("bob", "4");
  EXPECT_THAT(served_, ElementsAre("1", "2", "4"));
  End("4");
  EXPECT_THAT(served_, ElementsAre("1", "2", "4"));
  End("1");
  EXPECT_THAT(served_, ElementsAre("1", "2", "4", "3"));
}

}  // namespace
}  // namespace dp::server
