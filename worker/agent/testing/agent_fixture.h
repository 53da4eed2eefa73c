#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "base/testing/notify_listener.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/agent.h"
#include "worker/agent/testing/fake_coordinator.h"
#include "worker/agent/testing/fake_gpu.h"
#include "worker/agent/testing/fake_runner.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {

inline v1::AssignedRank ARank(int rank, bool stop = false) {
  v1::AssignedRank assigned;
  assigned.set_rank(rank);
  assigned.set_slot(rank);
  assigned.set_stop(stop);
  assigned.mutable_spec()->mutable_grace()->set_nanos(1'000'000);
  return assigned;
}

// A rank whose grace does not expire during a test.
inline v1::AssignedRank APatientRank(int rank) {
  v1::AssignedRank assigned = ARank(rank);
  assigned.mutable_spec()->mutable_grace()->set_seconds(3600);
  return assigned;
}

// A daemon with a fake coordinator and fake processes.
class AgentFixture : public testing::Test {
 protected:
  ~AgentFixture() override {
    if (!running_.joinable()) return;
    mailbox_.Tell(ShutdownWanted{});
    mailbox_.Tell(ShutdownWanted{});
    (void)AwaitEnd();  // the tests that care have checked it already
  }

  void Run(const std::string& name = "") {
    AgentOptions options{
        .name = name,
        .host_name = "host",
        .slots = 2,
        .state_dir = directory_.path(),
        .spool_probe_every = absl::Milliseconds(1),
        .left_overs_max = left_overs_max_,
        .rank_host = {.coordinator = "c:1",
                      .credential_dir = credential_dir_,
                      .trainer = "/trainer"},
        .address = [] { return std::string("10.0.0.9"); },
        .notify = &notify_,
        .coordinator_probe = probe_,
        .slot_devices = {{{"a", "GPU 0 (a)"}}, {}},
        .device_memory = memory_,
        .device_limits = device_limits_,
        .gpus = gpus_,
        .gpus_read_every = absl::Milliseconds(1),
        .incarnations = incarnations_,
        .earlier_gone = [this] { return earlier_gone_.load(); },
        .run_as = run_as_,
        .ask_account = [this](std::string name) { EXPECT_TRUE(accounts_asked_.TryPush(name)); },
        .private_tmps = private_tmps_ ? &*private_tmps_ : nullptr,
        .oom_kills = [this] { return oom_kills_.load(); },
        .seed = 42};
    agent_.emplace(std::move(options), coordinator_.connection(), runner_, mailbox_, *clock_);
    running_ = std::jthread([this] { result_ = agent_->Run(); });
  }

  void RunRankZero(const v1::AssignedRank& rank = ARank(0)) {
    Run();
    EXPECT_EQ(coordinator_.NextHeard(), "register a");
    coordinator_.Assign({rank});
    EXPECT_EQ(runner_.NextOrder(), "start 0");
    runner_.Tell(0, ProcessStarted{100});
    EXPECT_EQ(coordinator_.NextHeard(), "rank 0 started");
  }

  void End(int rank, int code) {
    runner_.Tell(rank, ProcessExited{{Exit::How::kCode, code}});
    runner_.Tell(rank, ProcessGone{});
  }

  void AwaitRemovedSpool() { AwaitRemoved(spool_.path(v1::LOG_STREAM_STDOUT)); }
  static void AwaitRemoved(const std::string& path) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (std::filesystem::exists(path)) {
      ASSERT_LT(absl::Now(), deadline);
      std::this_thread::yield();
    }
  }

  absl::Status AwaitEnd() {
    running_.join();
    coordinator_.CancelAll();
    agent_.reset();
    return result_;
  }

  TemporaryDirectory directory_;
  std::string credential_dir_;  // the daemon's; empty: it calls in plain text
  NotifyListener manager_;
  NotifySocket notify_{manager_.name(), absl::Minutes(1)};
  const LogSpool spool_{directory_.path(), {JobId(1), Generation(1), 0}};
  Mailbox mailbox_;
  const Clock* clock_ = &Clock::System();
  FakeCoordinator coordinator_;
  FakeRunner runner_{mailbox_};
  FakeMemory gpu_;
  DeviceMemorySource* memory_ = nullptr;
  FakeGpus readings_;
  GpuReader* gpus_ = nullptr;
  ListenerProbe* probe_ = nullptr;
  IncarnationRecord* incarnations_ = nullptr;
  std::atomic<bool> earlier_gone_ = false;
  std::atomic<int64_t> oom_kills_ = 0;  // of the host
  RunAs run_as_;
  std::optional<PrivateTmps> private_tmps_;
  BoundedQueue<std::string> accounts_asked_{10};
  size_t left_overs_max_ = kLeftOversMax;
  SlotDevices::Limits device_limits_{.patience = absl::Hours(1),
                                     .ask_every = absl::Milliseconds(1),
                                     .ask_unfit_every = absl::Milliseconds(1)};
  std::optional<Agent> agent_;
  absl::Status result_;
  std::jthread running_;
};

}  // namespace dp::worker
