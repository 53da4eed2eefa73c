#include "server/tcpstore/driver_store_link.h"

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/driver/driver.h"
#include "server/driver/testing/memory_journal.h"

namespace dp::server {
namespace {

constexpr Generation kFirst(1);

// A relay's link to the store of a placed job.
class DriverStoreLinkTest : public ::testing::Test {
 protected:
  using Found = std::future<AsyncStore::Results>;

  void SetUp() override {
    auto driver = Driver::Start({.lease = absl::Minutes(10)}, journal_, Clock::System(),
                                [](const absl::Status&) {});
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
    Submit(core::RegisterWorker{"w", "host", "127.0.0.1", Incarnation(1), 2});
    Submit(core::SubmitJob{.request_id = "r", .spec = {.name = "job", .ranks = 1}});
    link_ = std::make_unique<DriverStoreLink>(
        *driver_, callers_,
        DriverStoreLink::Options{.job = JobId(1), .generation = kFirst, .incarnation = 7});
  }
  void TearDown() override { driver_->Stop(); }

  void Submit(core::Action action) {
    std::promise<absl::Status> done;
    ASSERT_TRUE(
        driver_
            ->Submit(std::move(action), [&](const core::Outcome& outcome,
                                            const View&) { done.set_value(outcome.status); })
            .ok());
    ASSERT_TRUE(done.get_future().get().ok());
  }
  void Do(StoreOperation operation) {
    std::promise<absl::Status> done;
    const RelayLedger::Batch batch{++sequence_, {std::move(operation)}, {1}};
    link_->Execute(batch, [&](const auto& reply) { done.set_value(reply.status()); });
    EXPECT_EQ(done.get_future().get(), absl::OkStatus());
  }
  // Parks a wait for the queue; on return the wait is parked.
  Found Await() {
    auto found = std::make_shared<std::promise<AsyncStore::Results>>();
    link_->Await({StoreCheck{{"q"}}}, {},
                 [found](AsyncStore::Results results) { found->set_value(std::move(results)); });
    AwaitTurn();
    return found->get_future();
  }
  // On return the driver has done all that was requested before.
  void AwaitTurn() {
    for (int turn = 0; turn < 2; ++turn) {
      std::promise<void> done;
      ASSERT_TRUE(driver_->Ask([&](const absl::Status&, const View&) { done.set_value(); }).ok());
      done.get_future().wait();
    }
  }
  static bool Answered(const Found& found) {
    return found.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  MemoryJournal journal_;
  StoreCallers callers_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<DriverStoreLink> link_;
  uint64_t sequence_ = 0;
};

TEST_F(DriverStoreLinkTest, AWaitThatIsCancelledEndsAndIsParkedNoMore) {
  std::promise<absl::Status> ended;
  const auto call =
      link_->Await({StoreCheck{{"never"}}}, {},
                   [&](const AsyncStore::Results& results) { ended.set_value(results.status()); });
  call->Cancel();
  EXPECT_EQ(ended.get_future().get().code(), absl::StatusCode::kCancelled);
}

TEST_F(DriverStoreLinkTest, AWaitThatIsParkedAnewIsNotToldOfAnElementThatIsAnothers) {
  Found first = Await();
  Do(StoreQueuePush{"q", "1"});
  EXPECT_TRUE(first.get()->at(0).found);
  Found anew = Await();
  EXPECT_FALSE(Answered(anew));
  Do(StoreQueuePop{"q"});
  Do(StoreQueuePush{"q", "2"});
  EXPECT_TRUE(anew.get()->at(0).found);
}

TEST_F(DriverStoreLinkTest, AWaitThatIsParkedAnewFindsWhatCameWhileNobodyWaited) {
  Do(StoreQueuePush{"q", "1"});
  Found one = Await(), other = Await();
  EXPECT_TRUE(one.get()->at(0).found);
  EXPECT_FALSE(Answered(other));
}

TEST_F(DriverStoreLinkTest, WhoWaitsIsToldByItsEndOfTheConnectionAndSoIsWhatABarrierLacks) {
  Do(StoreAdd{"meet", 1});
  std::promise<void> answered;
  const auto call = link_->Await({StoreReached{"meet", 1 + 1}},
                                 {.waited = absl::Seconds(5), .peer = "10.0.0.2:40312"},
                                 [&](const auto&) { answered.set_value(); });
  AwaitTurn();
  std::promise<std::string> peer;
  ASSERT_TRUE(driver_
                  ->Ask([&](const absl::Status&, const View& view) {
                    peer.set_value(view.waiters.blocked(JobId(1)).at(0)->peer);
                    core::Job job = *view.coordinator.job(JobId(1));
                    job.ranks.resize(2);
                    const CallerNames names(job, {{"10.0.0.2:40312", 0}});
                    EXPECT_THAT(callers_.arrivals.Missing(job, "meet", 1, 2, names),
                                ::testing::ElementsAre(1));
                  })
                  .ok());
  EXPECT_EQ(peer.get_future().get(), "10.0.0.2:40312");
  Do(StoreAdd{"meet", 1});
  answered.get_future().wait();
}

}  // namespace
}  // namespace dp::server
