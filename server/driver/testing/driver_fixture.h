#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/settable_clock.h"
#include "gtest/gtest.h"
#include "server/driver/driver.h"
#include "server/driver/testing/memory_journal.h"

// For tests: a driver whose journal can be blocked.

namespace dp::server {

// A copy for another thread, which shares nothing with `status`. The thread sanitizer does not see
// how the distribution's absl counts the owners of a status.
inline absl::Status Unshared(const absl::Status& status) {
  return {status.code(), status.message()};
}

// A journal whose appends can be blocked, and which signals when one has begun.
class GatedJournal final : public Journal {
 public:
  absl::Status Replay(Restore restore, Apply apply) override {
    return memory.Replay(restore, apply);
  }
  absl::Status Append(absl::Span<const core::Command> commands) override {
    if (gate) {
      std::exchange(begun, nullptr)->set_value();
      std::exchange(gate, nullptr)->get_future().wait();
    }
    const absl::Status status = memory.Append(commands);
    events.push_back(status.ok() ? "synced " + std::to_string(commands.size()) : "sync failed");
    return status;
  }
  void TakeSnapshot(const core::State& state) override { memory.TakeSnapshot(state); }
  absl::Status Maintain() override { return maintained; }
  bool compacting() const override { return memory.compacting(); }
  uint64_t backlog_bytes() const override { return memory.backlog_bytes(); }
  JournalTail tail() const override {
    JournalTail tail = memory.tail();
    tail.bytes = bytes;
    return tail;
  }

  MemoryJournal memory;
  absl::Status maintained;
  uint64_t bytes = 0;  // as tail() reports
  std::vector<std::string> events;
  std::shared_ptr<std::promise<void>> gate, begun;
};

inline core::SubmitJob AJob(const std::string& name, int ranks = 1) {
  return {.request_id = name, .spec = {.name = name, .ranks = ranks}};
}
inline core::RegisterWorker AWorker(uint64_t incarnation = 1) {
  return {"w", "host", "127.0.0.1", Incarnation(incarnation), 2};
}
inline core::Topic JobList() { return {.kind = core::Topic::Kind::kJobList}; }

class DriverTest : public ::testing::Test {
 protected:
  using Wake = Waiters::Wake;

  void Start(Driver::Options options = {}) {
    auto driver = Driver::Start(options, journal_, clock_, [this](const absl::Status& why) {
      ended_.set_value(Unshared(why));
    });
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
  }
  // Submits, and records the answer among the journal's events, on the driver's thread.
  std::future<absl::Status> Submit(core::Action action) {
    auto answer = std::make_shared<std::promise<absl::Status>>();
    const absl::Status status =
        driver_->Submit(std::move(action), [this, answer](const auto& outcome, const View&) {
          journal_.events.push_back("answered");
          answer->set_value(Unshared(outcome.status));
        });
    if (!status.ok()) answer->set_value(status);
    return answer->get_future();
  }
  // Runs `look` on the driver's thread. On return at least one round of its loop has passed.
  void Look(std::function<void(const View&)> look = [](const View&) {}) {
    std::promise<absl::Status> done;
    const absl::Status status = driver_->Ask([&](const absl::Status& status, const View& view) {
      if (status.ok()) look(view);
      done.set_value(Unshared(status));
    });
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(done.get_future().get().ok());
  }
  Epoch EpochNow() {
    Epoch epoch;
    Look([&](const View& view) { epoch = view.coordinator.epoch(); });
    return epoch;
  }
  // A wait that is answered once there are `jobs` jobs, or when the wait ends.
  std::future<Wake> WaitForJobs(Waiters::Ticket ticket, size_t jobs,
                                absl::Duration timeout = absl::Seconds(60)) {
    auto answer = std::make_shared<std::promise<Wake>>();
    const absl::Status status = driver_->Wait(
        ticket, {JobList()}, timeout, [this, answer, jobs](Wake wake, const View& view) {
          if (wake == Wake::kChanged && view.coordinator.jobs().size() < jobs) return false;
          journal_.events.push_back("woken");
          answer->set_value(wake);
          return true;
        });
    EXPECT_TRUE(status.ok()) << status;
    return answer->get_future();
  }
  // Blocks the driver inside its next sync, until the returned promise is set.
  std::shared_ptr<std::promise<void>> HoldNextSync(core::Action action) {
    auto gate = std::make_shared<std::promise<void>>();
    auto begun = std::make_shared<std::promise<void>>();
    Look([&](const View&) { journal_.gate = gate, journal_.begun = begun; });
    held_ = Submit(std::move(action));
    begun->get_future().wait();
    return gate;
  }

  GatedJournal journal_;
  SettableClock clock_;
  std::promise<absl::Status> ended_;
  std::future<absl::Status> held_;
  std::unique_ptr<Driver> driver_;  // last: its thread uses the others
};

}  // namespace dp::server
