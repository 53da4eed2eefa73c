#include "server/core/event_history.h"

#include <gtest/gtest.h>

#include "absl/strings/str_join.h"

namespace dp::core {
namespace {

class EventHistoryTest : public testing::Test {
 protected:
  void Add(uint64_t job) { history_.Add({.job = JobId(job), .kind = "placed"}); }
  // The numbers of the events.
  std::string After(uint64_t since, uint64_t job = 0, size_t limit = 1000) const {
    return absl::StrJoin(
        history_.After(since, JobId(job), limit), " ",
        [](std::string* out, const Event* event) { out->append(std::to_string(event->number)); });
  }

  EventHistory history_;
};

TEST_F(EventHistoryTest, EventsAreNumberedAndReadFromANumberOn) {
  for (const uint64_t job : {1, 2, 1, 0}) Add(job);
  EXPECT_EQ(After(0), "1 2 3 4");
  EXPECT_EQ(After(2), "3 4");
  EXPECT_EQ(After(0, 1), "1 3");
  EXPECT_EQ(After(1, 1), "3");
  EXPECT_EQ(After(0, 0, 2), "1 2");
  EXPECT_EQ(After(0, 1, 1), "1");
}

TEST_F(EventHistoryTest, AJobThatMakesManyLosesItsOwnOldest) {
  Add(1);
  for (size_t i = 0; i <= EventHistory::kOfJobMax; ++i) Add(2);
  EXPECT_EQ(history_.After(0, JobId(2), 1000).size(), EventHistory::kOfJobMax);
  EXPECT_EQ(history_.After(0, JobId(2), 1).front()->number, 3u);
  EXPECT_EQ(After(0, 1), "1");
}

TEST_F(EventHistoryTest, InAllTheOldestGo) {
  for (size_t i = 0; i < EventHistory::kEventsMax + 3; ++i) Add(1 + i / 2);
  EXPECT_EQ(history_.oldest(), 4u);
  EXPECT_EQ(After(0, 1), "");
  EXPECT_EQ(After(0, 2), "4");
}

TEST_F(EventHistoryTest, AJobsEventsGoWithIt) {
  for (const uint64_t job : {1, 2, 1}) Add(job);
  history_.Forget(JobId(1));
  EXPECT_EQ(After(0), "2");
  EXPECT_EQ(After(0, 1), "");
  Add(1);
  EXPECT_EQ(After(0, 1), "4");
}

}  // namespace
}  // namespace dp::core
