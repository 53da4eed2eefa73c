#pragma once

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "worker/library/spawn/rank_end.h"
#include "worker/library/spawn/rank_place.h"

namespace dp::library {

// A forked child that runs one rank. The owner reaps it, by TakeEnd.
class RankProcess {
 public:
  // Forks. The child sets `variables`, calls `prepare` and `fn(rank)`, and ends; the kernel kills
  // it when the calling thread ends. Errors: ResourceExhausted.
  static absl::StatusOr<RankProcess> Start(int rank, const RankVariables& variables,
                                           const std::function<void()>& prepare,
                                           const std::function<void(int)>& fn);

  int pid() const { return pid_; }
  // Becomes readable when the process has ended.
  int ended_fd() const { return ended_.get(); }
  void Signal(int signal) const;
  // Reaps the process, and waits for that if it still runs. Called once.
  RankEnd TakeEnd();

 private:
  RankProcess(int rank, int pid, FileDescriptor ended, FileDescriptor note);

  int rank_;
  int pid_;
  FileDescriptor ended_;
  FileDescriptor note_;  // a file in memory, where the child leaves the exception that ended it
};

}  // namespace dp::library
