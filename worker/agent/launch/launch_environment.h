#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dp/v1/workers.pb.h"

// The environment of a command job's program. Programs for other launchers run unmodified in it
// (docs/command-jobs.md lists every variable). Pure.

namespace dp::worker {

using Environment = std::map<std::string, std::string>;

// The resources of a host for ranks.
struct HostFacts {
  int slots = 1;
  std::string interface = {};             // network interface with the host's address; may be empty
  std::vector<std::string> devices = {};  // GPUs, as CUDA_VISIBLE_DEVICES names them
};

// Where the program's ranks meet: PyTorch's MASTER_ADDR and MASTER_PORT.
struct StoreEndpoint {
  std::string host;
  int port = 0;
  // Whether the store is served there already; otherwise rank 0's own process serves it.
  bool served = false;
};

// The GPUs of a slot. They are dealt in turn: slot 0 of two has devices 0, 2, 4, ...
std::vector<std::string> DevicesOf(int slot, const HostFacts& host);

// Rank 0's address, and the port that is reserved for it there. Errors: FailedPrecondition rank 0's
// worker reserves no port.
absl::StatusOr<StoreEndpoint> EndpointAtRank0(const v1::AssignedRank& rank);

// The rank's command line. Under the contract "launch" its local rank replaces ${local_rank}.
std::vector<std::string> ArgvOf(const v1::AssignedRank& rank);

// The mandatory variables: the rank's place, by the job's contract. torchelastic's programs report
// an exception in the file `error_file`.
Environment PlaceOf(const v1::AssignedRank& rank, const HostFacts& host, const StoreEndpoint& store,
                    const std::string& error_file);

// Variables that the daemon's environment and the job's may override.
Environment LaunchDefaults(const v1::AssignedRank& rank, const HostFacts& host);

}  // namespace dp::worker
