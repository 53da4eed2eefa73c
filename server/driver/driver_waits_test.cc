#include <future>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/driver/testing/driver_fixture.h"

namespace dp::server {
namespace {

using core::Topic;
using ::testing::ElementsAre;

TEST_F(DriverTest, AWaitEndsAtItsDeadline) {
  Start();
  std::future<Wake> waiting = WaitForJobs(driver_->NewTicket(), 1, absl::Seconds(10));
  Look();
  clock_.Advance(absl::Seconds(11));
  Look();
  EXPECT_EQ(waiting.get(), Wake::kDeadline);
}

TEST_F(DriverTest, AWaitIsToldOfNoChangeThatItsFirstLookHasSeen) {
  Start();
  const auto gate = HoldNextSync(AJob("a"));
  std::future<absl::Status> made = Submit(AJob("b"));  // in one batch with the wait
  std::vector<size_t> told;
  ASSERT_TRUE(driver_
                  ->Wait(driver_->NewTicket(), {JobList()}, absl::Seconds(60),
                         [&told](Wake wake, const View& view) {
                           told.push_back(view.changed.size());
                           return wake != Wake::kChanged;
                         })
                  .ok());
  gate->set_value();
  ASSERT_TRUE(made.get().ok());
  Look();
  EXPECT_THAT(told, ElementsAre(0));
  ASSERT_TRUE(Submit(AJob("c")).get().ok());
  Look();
  EXPECT_THAT(told, ElementsAre(0, 1));
  driver_->Stop();
}

TEST_F(DriverTest, ACancelledWaitEnds) {
  Start();
  const Waiters::Ticket ticket = driver_->NewTicket();
  std::future<Wake> waiting = WaitForJobs(ticket, 1);
  driver_->Cancel(ticket);
  EXPECT_EQ(waiting.get(), Wake::kCancelled);
}

TEST_F(DriverTest, AWaitIsCancelledAlsoWhileTheQueueIsFull) {
  Start({.queue_capacity = 2});
  const Waiters::Ticket parked = driver_->NewTicket(), queued = driver_->NewTicket();
  std::future<Wake> waiting = WaitForJobs(parked, 9, absl::InfiniteDuration());
  Look();
  const auto gate = HoldNextSync(AJob("a"));
  std::future<Wake> behind = WaitForJobs(queued, 9, absl::InfiniteDuration());
  auto b = Submit(AJob("b"));
  EXPECT_EQ(Submit(AJob("c")).get().code(), absl::StatusCode::kUnavailable);
  driver_->Cancel({parked, queued});
  gate->set_value();
  EXPECT_EQ(waiting.get(), Wake::kCancelled);
  EXPECT_EQ(behind.get(), Wake::kCancelled);
}

TEST_F(DriverTest, LogsWakeThoseWhoWaitForALaterVersion) {
  Start();
  ASSERT_TRUE(Submit(AJob("a")).get().ok());
  std::promise<void> woken;
  ASSERT_TRUE(driver_
                  ->Wait(driver_->NewTicket(), {{.kind = Topic::Kind::kLogs, .id = 1}},
                         absl::Seconds(60),
                         [&](Wake, const View& view) {
                           const auto logs = view.log_versions.find(JobId(1));
                           if (logs == view.log_versions.end() || logs->second < 2) return false;
                           woken.set_value();
                           return true;
                         })
                  .ok());
  ASSERT_TRUE(driver_->TellLogs(JobId(1), 1, [](const absl::Status&, const View&) {}).ok());
  ASSERT_TRUE(driver_->TellLogs(JobId(1), 2, [](const absl::Status&, const View&) {}).ok());
  woken.get_future().wait();
}

TEST_F(DriverTest, StoppingEndsWaitsAndRefusesCalls) {
  Start();
  std::future<Wake> waiting = WaitForJobs(driver_->NewTicket(), 1);
  driver_->Stop();
  EXPECT_EQ(waiting.get(), Wake::kStopping);
  EXPECT_TRUE(ended_.get_future().get().ok());
  EXPECT_EQ(Submit(AJob("a")).get().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace dp::server
