#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dp::distributed {

// The kind of an error, for programs that react to it.
enum class ErrorKind {
  kInvalidArgument,  // the caller's; the same call fails again
  kUnsupported,      // not in this build or release, or a library is missing
  kWrongState,       // no process group yet, one already, a shared GPU, or a file of an earlier run
  kTimeout,          // ranks did not arrive, or a key did not appear, within the time limit
  kPeerGone,         // a rank ended or left while others needed it
  kMismatch,         // ranks called different operations, or the same one with different arguments
  kAborted,          // ProcessGroup::abort ended the operation
  kUnreachable,      // the store's server, the file system or the network
  kLimit,            // the store or the queue is full, or sizes are more than memory holds
  kInternal,         // a bug of dp; over NCCL also an error of the GPU
  kProgramFailed,    // the program's own part failed: a rank that spawn started, a replica, a hook
};

// Every error of this library. The message names the thing, the value found, and a remedy.
class DistError : public std::runtime_error {
 public:
  DistError(ErrorKind kind, const std::string& message, std::vector<int> missing_ranks = {})
      : std::runtime_error(message), kind_(kind), missing_ranks_(std::move(missing_ranks)) {}

  ErrorKind kind() const noexcept { return kind_; }
  // The ranks that did not arrive (kTimeout) or are gone (kPeerGone), where they are known: ranks
  // of the group, in ascending order.
  const std::vector<int>& missing_ranks() const noexcept { return missing_ranks_; }

 private:
  ErrorKind kind_;
  std::vector<int> missing_ranks_;
};

}  // namespace dp::distributed
