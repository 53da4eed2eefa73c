#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "worker/engine/collectives/group.h"
#include "worker/library/nccl/nccl_use.h"
#include "worker/library/spawn/fork_count.h"

namespace dp::library {

// An operation of a group.
class PendingWork {
 public:
  // With `on_stream` a wait only orders the result before the later work of that stream.
  PendingWork(std::unique_ptr<engine::Work> work, std::string context,
              std::optional<NcclUse> on_stream = std::nullopt);
  ~PendingWork();
  PendingWork(const PendingWork&) = delete;
  PendingWork& operator=(const PendingWork&) = delete;

  // Both throw in a fork of the process that has begun the operation.
  void Wait();
  bool done() const;

 private:
  bool in_fork() const { return ForkCount() != begun_at_; }
  void CheckProcess() const;
  absl::Status Order();

  const std::string context_;
  const std::optional<NcclUse> on_stream_;
  const uint64_t begun_at_ = ForkCount();
  std::unique_ptr<engine::Work> work_;
  bool ordered_ = false;
};

}  // namespace dp::library
