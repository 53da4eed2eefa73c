#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "server/driver/journal.h"

namespace dp::server {

// For tests: a journal that exists as long as the process. Tests may look at it while no driver
// runs, and may make it fail.
class MemoryJournal final : public Journal {
 public:
  MemoryJournal() = default;
  explicit MemoryJournal(std::vector<core::Command> commands) : commands_(std::move(commands)) {}

  absl::Status Replay(Restore restore, Apply apply) override {
    if (snapshot_.has_value()) restore(*snapshot_);
    for (const core::Command& command : commands_) apply(command);
    return absl::OkStatus();
  }

  absl::Status Append(absl::Span<const core::Command> commands) override {
    if (!failure_.ok()) return failure_;
    commands_.insert(commands_.end(), commands.begin(), commands.end());
    ++syncs_;
    return absl::OkStatus();
  }

  void TakeSnapshot(const core::State& state) override {
    snapshot_ = state;
    commands_.clear();
  }
  absl::Status Maintain() override { return absl::OkStatus(); }
  bool compacting() const override { return false; }
  JournalTail tail() const override { return {.commands = commands_.size()}; }
  uint64_t backlog_bytes() const override { return backlog_bytes_; }

  // Every later Append fails with `failure`.
  void FailWith(absl::Status failure) { failure_ = std::move(failure); }

  void SetBacklog(uint64_t bytes) { backlog_bytes_ = bytes; }

  // The commands since the last snapshot.
  const std::vector<core::Command>& commands() const { return commands_; }
  const std::optional<core::State>& snapshot() const { return snapshot_; }
  // How many appends succeeded; each stands for one sync of the disk.
  size_t syncs() const { return syncs_; }

 private:
  std::optional<core::State> snapshot_;
  std::vector<core::Command> commands_;
  size_t syncs_ = 0;
  std::atomic<uint64_t> backlog_bytes_ = 0;
  absl::Status failure_;
};

}  // namespace dp::server
