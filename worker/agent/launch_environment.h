#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dp/v1/workers.pb.h"

// What a command job's program finds in its environment, so that programs written for other
// launchers run unmodified (docs/command-jobs.md lists every variable). Pure.

namespace dp::worker {

using Environment = std::map<std::string, std::string>;

// What a host has for ranks.
struct HostFacts {
  int slots = 1;
  std::string interface = {};             // network interface with the host's address; may be empty
  std::vector<std::string> devices = {};  // GPUs, as CUDA_VISIBLE_DEVICES names them
};

// Where the program's ranks meet: PyTorch's MASTER_ADDR and MASTER_PORT.
struct StoreEndpoint {
  std::string host;
  int port = 0;
  // Whether somebody serves the store there already; else rank 0's own process does.
  bool served = false;
};

// The GPUs of a slot: they are dealt in turn, so that slot 0 of two has devices 0, 2, 4, ...
std::vector<std::string> DevicesOf(int slot, const HostFacts& host);

// Rank 0's address, and the port that is kept free for it there.
// Errors: FailedPrecondition its worker keeps no port.
absl::StatusOr<StoreEndpoint> EndpointAtRank0(const v1::AssignedRank& rank);

// The rank's command line. Under the contract "launch" its local rank replaces ${local_rank}.
std::vector<std::string> ArgvOf(const v1::AssignedRank& rank);

// What must be so for this rank: its place, by the job's contract. `error_file` is where
// torchelastic's programs leave word of an exception.
Environment PlaceOf(const v1::AssignedRank& rank, const HostFacts& host, const StoreEndpoint& store,
                    const std::string& error_file);

// What holds unless the daemon's environment or the job's says otherwise.
Environment LaunchDefaults(const v1::AssignedRank& rank, const HostFacts& host);

}  // namespace dp::worker
