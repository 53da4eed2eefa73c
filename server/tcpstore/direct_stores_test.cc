#include "server/tcpstore/direct_stores.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dp/v1/jobs.pb.h"
#include "server/driver/testing/memory_journal.h"
#include "store/wire/server.h"
#include "store/wire/socket.h"
#include "store/wire/tcp_store.h"

namespace dp::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

// A driver with a worker, and ports for stores that the coordinator will serve.
class DirectStoresTest : public ::testing::Test {
 protected:
  // The worker registers with the address.
  explicit DirectStoresTest(absl::Duration try_again = absl::Milliseconds(1),
                            std::string address = "127.0.0.1")
      : try_again_(try_again), address_(std::move(address)) {}
  void SetUp() override {
    Driver::Options options{.lease = absl::Minutes(10)};
    options.placement.ports.first = first_port_;
    options.placement.ports.last = first_port_ + 100;
    options.store_port_usable = [this](const core::Job& job, int port) {
      return port == not_kept_ || ports_.Keep(job, port);
    };
    auto driver = Driver::Start(options, journal_, Clock::System(), [](const absl::Status&) {});
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
    stores_ = std::make_unique<DirectStores>(*driver_, ports_, callers_, KeyValueLimits(), memory_,
                                             try_again_);
    Submit(core::RegisterWorker{"w", "host", address_, Incarnation(1), 2});
  }
  void TearDown() override {
    driver_->Stop();
    stores_.reset();
  }

  // Returns the port of the job's store.
  int SubmitJob(const std::string& request) {
    v1::JobSpec spec;
    spec.mutable_command()->set_store("direct");
    Submit(core::SubmitJob{.request_id = request,
                           .spec = {.name = "job",
                                    .ranks = 1,
                                    .payload = spec.SerializeAsString(),
                                    .store_port = true,
                                    .joins_by_running = true}});
    std::promise<int> port;
    EXPECT_TRUE(driver_
                    ->Ask([&](const absl::Status&, const View& view) {
                      port.set_value(view.coordinator.jobs().back()->store_port);
                    })
                    .ok());
    return port.get_future().get();
  }
  void Submit(core::Action action) {
    std::promise<absl::Status> done;
    ASSERT_TRUE(
        driver_
            ->Submit(std::move(action), [&](const core::Outcome& outcome,
                                            const View&) { done.set_value(outcome.status); })
            .ok());
    ASSERT_TRUE(done.get_future().get().ok());
  }
  // The result for a rank that connects to the store.
  static absl::Status Use(int port) {
    const auto store = wire::TcpStore::Open(
        {.server = {"127.0.0.1", static_cast<uint16_t>(port)}, .timeout = kPatience});
    return store.ok() ? (*store)->Set("k", "v") : store.status();
  }

  const absl::Duration try_again_;
  const std::string address_;
  const int first_port_ = *wire::PortOf(wire::Listen("127.0.0.1", 0)->get());
  int not_kept_ = 0;
  MemoryJournal journal_;
  DirectPorts ports_{"127.0.0.1"};
  StoreCallers callers_;
  wire::MessageMemory memory_{wire::kServerMemoryBytes};
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<DirectStores> stores_;
};

// With an hour between retries, so that nothing is retried.
class DirectStoresAtOnceTest : public DirectStoresTest {
 protected:
  DirectStoresAtOnceTest() : DirectStoresTest(absl::Hours(1)) {}
};

TEST_F(DirectStoresAtOnceTest, TheStoreOfAJobThatWasPlacedIsServedAtThePortThatWasKept) {
  EXPECT_EQ(Use(SubmitJob("r")), absl::OkStatus());
}

// An address for documentation, so no connection comes from it.
class DirectStoresElsewhereTest : public DirectStoresTest {
 protected:
  DirectStoresElsewhereTest() : DirectStoresTest(absl::Hours(1), "192.0.2.1") {}
};

TEST_F(DirectStoresElsewhereTest, AHostWithoutRanksOfTheJobIsNotServed) {
  EXPECT_EQ(Use(SubmitJob("r")).code(), absl::StatusCode::kUnavailable);
}

TEST_F(DirectStoresTest, TheStoreOfAGenerationThatIsOverIsClosed) {
  const int port = SubmitJob("r");
  const auto store = wire::TcpStore::Open(
      {.server = {"127.0.0.1", static_cast<uint16_t>(port)}, .timeout = kPatience});
  ASSERT_TRUE(store.ok()) << store.status();
  const std::vector<std::string> never = {"never"};
  std::future<absl::Status> waiting =
      std::async(std::launch::async, [&] { return (*store)->Wait(never, kPatience); });
  Submit(core::CancelJob{JobId(1)});
  Submit(core::ReportRank{.worker = WorkerId(1),
                          .incarnation = Incarnation(1),
                          .rank = {JobId(1), Generation(1), 0},
                          .what = core::ReportRank::What::kReleased});
  EXPECT_EQ(waiting.get().code(), absl::StatusCode::kUnavailable);
}

TEST_F(DirectStoresTest, APortThatAnotherProgramHasIsTriedAgainUntilItIsFree) {
  not_kept_ = first_port_;  // as after a restart of the coordinator
  std::optional<FileDescriptor> other = *wire::Listen("127.0.0.1", not_kept_);
  ASSERT_EQ(SubmitJob("r"), not_kept_);
  EXPECT_EQ(Use(SubmitJob("s")), absl::OkStatus());  // so the first was tried before
  other.reset();
  const absl::Time deadline = Clock::Steady().Now() + kPatience;
  while (!Use(not_kept_).ok()) ASSERT_LT(Clock::Steady().Now(), deadline);
}

}  // namespace
}  // namespace dp::server
