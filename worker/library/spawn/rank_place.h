#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "dp/spawn.h"

namespace dp::library {

// The environment variables that a rank gets; those without a value are removed.
using RankVariables = std::vector<std::pair<std::string, std::optional<std::string>>>;

// Whether `options` make sense for `nprocs` ranks. Errors: InvalidArgument names the
// option; ResourceExhausted too many ranks.
absl::Status CheckSpawnOptions(const distributed::SpawnOptions& options, int nprocs);

// The variables of the rank with number `local_rank` on this host. Pure.
RankVariables VariablesOfRank(const distributed::SpawnOptions& options, int nprocs, int local_rank);

// A port of 127.0.0.1 that no other program gets while this lives. It is bound and does not listen,
// so the store of rank 0 can: both reuse addresses.
class ReservedPort {
 public:
  static absl::StatusOr<ReservedPort> Open();

  uint16_t port() const { return port_; }
  // Gives it up, as a child does.
  void Close() { socket_.Close(); }

 private:
  ReservedPort(FileDescriptor socket, uint16_t port) : socket_(std::move(socket)), port_(port) {}

  FileDescriptor socket_;
  uint16_t port_;
};

}  // namespace dp::library
