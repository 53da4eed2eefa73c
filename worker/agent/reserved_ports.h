#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace dp::worker {

// TCP ports of this host that the kernel gives to nobody else: each is bound here, on all
// addresses, by a socket that never listens. A program that binds with SO_REUSEADDR, as servers do,
// may listen on one; until then, who connects there is refused. They are free again when this
// object goes.
class ReservedPorts {
 public:
  // Errors: ResourceExhausted names how many were asked for, and the reason.
  static absl::StatusOr<ReservedPorts> Reserve(int count);

  const std::vector<int>& numbers() const { return numbers_; }

 private:
  std::vector<FileDescriptor> sockets_;
  std::vector<int> numbers_;
};

}  // namespace dp::worker
