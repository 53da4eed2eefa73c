#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace dp::worker {

// TCP ports of this host that the kernel gives to no other program: for each, a socket that never
// listens is bound on all addresses. A program that binds with SO_REUSEADDR, as servers do, may
// listen on the port; until then, connections are refused. The destructor frees the ports.
class ReservedPorts {
 public:
  // Errors: ResourceExhausted names how many ports were wanted, and the reason.
  static absl::StatusOr<ReservedPorts> Reserve(int count);

  const std::vector<int>& numbers() const { return numbers_; }

 private:
  std::vector<FileDescriptor> sockets_;
  std::vector<int> numbers_;
};

}  // namespace dp::worker
