#pragma once

#include <cstddef>
#include <vector>

#include "server/shell/journal.h"

namespace dp::server {

// A journal that lasts as long as the process: for tests, which may look at it while no driver
// runs, and may make it fail.
class MemoryJournal final : public Journal {
 public:
  MemoryJournal() = default;
  explicit MemoryJournal(std::vector<core::Command> commands) : commands_(std::move(commands)) {}

  absl::Status Replay(absl::FunctionRef<void(const core::Command&)> apply) override {
    for (const core::Command& command : commands_) apply(command);
    return absl::OkStatus();
  }

  absl::Status Append(absl::Span<const core::Command> commands) override {
    if (!failure_.ok()) return failure_;
    commands_.insert(commands_.end(), commands.begin(), commands.end());
    ++syncs_;
    return absl::OkStatus();
  }

  // Every later Append fails with this.
  void FailWith(absl::Status failure) { failure_ = std::move(failure); }

  const std::vector<core::Command>& commands() const { return commands_; }
  // How many appends succeeded; each stands for one sync of the disk.
  size_t syncs() const { return syncs_; }

 private:
  std::vector<core::Command> commands_;
  size_t syncs_ = 0;
  absl::Status failure_;
};

}  // namespace dp::server
