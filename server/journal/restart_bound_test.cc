// Counts what a restart has to replay; `make bench-journal` measures the time.

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/scratch_dir.h"
#include "gtest/gtest.h"
#include "server/driver/driver.h"
#include "server/driver/journal.h"
#include "server/journal/sqlite_journal.h"

namespace dp::server {
namespace {

constexpr int kKeys = 100'000;
// Commands of one wave, which is answered before the next: fewer than the queue holds.
constexpr int kWave = 1000;

// A driver over a journal on disk. Its one job has a store of many keys.
class RestartBoundTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    auto journal = SqliteJournal::Open(file_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
    auto driver = Driver::Start({.lease = absl::Minutes(10)}, *journal_, Clock::Steady(),
                                [](const absl::Status&) {});
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
    Submit(core::RegisterWorker{"w", "host", "127.0.0.1", Incarnation(1), 1});
    Submit(core::SubmitJob{.request_id = "r", .spec = {.name = "job", .ranks = 1}});
  }
  void TearDown() override { driver_.reset(); }

  std::future<absl::Status> Begin(core::Action action) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    const absl::Status taken = driver_->Submit(
        std::move(action),
        [done](const core::Outcome& outcome, const View&) { done->set_value(outcome.status); });
    if (!taken.ok()) done->set_value(taken);
    return done->get_future();
  }
  void Submit(core::Action action) { EXPECT_EQ(Begin(std::move(action)).get(), absl::OkStatus()); }

  // Sets keys, one command per key.
  void Put(int first, int count) {
    for (int wave = first; wave < first + count; wave += kWave) {
      std::vector<std::future<absl::Status>> puts;
      for (int key = wave; key < wave + kWave; ++key) {
        puts.push_back(Begin(core::StoreBatch{
            .job = JobId(1),
            .generation = Generation(1),
            .client = 1,
            .sequence = ++sequence_,
            .operations = {StoreSet{absl::StrCat("key", key), "a value of some bytes"}}}));
      }
      for (std::future<absl::Status>& put : puts) ASSERT_EQ(put.get(), absl::OkStatus());
    }
  }

  // The commands and keys that the next process finds.
  struct Found {
    uint64_t replayed = 0;
    uint64_t keys_in_snapshot = 0;
  };
  Found Restart() {
    driver_.reset();
    journal_.reset();
    Found found;
    const auto journal = SqliteJournal::Open(file_);
    EXPECT_TRUE(journal.ok()) << journal.status();
    const absl::Status replayed = (*journal)->Replay(
        [&](core::State state) {
          const core::Coordinator coordinator(std::move(state));
          found.keys_in_snapshot = (*coordinator.store(JobId(1), Generation(1)))->entries().size();
        },
        [&](const core::Command&) { ++found.replayed; });
    EXPECT_TRUE(replayed.ok()) << replayed;
    return found;
  }

  const ScratchDir scratch_;
  const std::string file_ = scratch_.path() / "journal.sqlite";
  std::unique_ptr<SqliteJournal> journal_;
  std::unique_ptr<Driver> driver_;
  uint64_t sequence_ = 0;  // of the one client
};

// Holds wherever the run ends. A snapshot begins after SnapshotPolicy::commands commands, and at
// most about as many more come while it is written.
TEST_P(RestartBoundTest, OfAHundredThousandKeysMostComeOutOfTheSnapshot) {
  constexpr uint64_t kMax = 2 * SnapshotPolicy{}.commands;
  Put(0, kKeys);
  Put(0, GetParam());
  const Found found = Restart();
  EXPECT_LE(found.replayed, kMax);
  EXPECT_GE(found.keys_in_snapshot, kKeys - kMax);
  EXPECT_GE(found.keys_in_snapshot + found.replayed, uint64_t{kKeys});
}

INSTANTIATE_TEST_SUITE_P(More, RestartBoundTest, ::testing::Values(0, 7'000, 14'000, 19'000));

}  // namespace
}  // namespace dp::server
