#pragma once

#include <optional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/connections/listen_address.h"
#include "server/policy/placement.h"
#include "server/program/identity_dir.h"
#include "server/program/limit_flags.h"
#include "server/program/memory_shares.h"
#include "store/key_values.h"

namespace dp::server {

// The command line of dp-coordinator, checked.
struct CoordinatorOptions {
  ListenAddress listen;
  std::optional<ListenAddress> tcpstore_listen;
  absl::Duration lease;
  core::PlacementPolicy placement;
  std::string data_dir;
  std::string port_file;
  bool insecure = false;
  IdentityOptions identity;
  bool accept_data_loss = false;
  bool accept_other_users = false;
  MemoryShares memory;
  uint64_t parameter_memory = 0;
  KeyValueLimits store;
  CallerFlags callers;
  DiskFlags disk;
};

// For errors that every later start would repeat, so the unit makes none. The outside world causes
// no such error: an address or a name may exist soon.
inline constexpr int kExitUsage = 2;

// Reads the command line. If there is nothing to run, returns the exit code instead: for help, or
// for a wrong flag, which has been reported on standard error.
std::variant<CoordinatorOptions, int> ReadCommandLine(int argc, char** argv);

}  // namespace dp::server
