#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "server/core/command.h"

namespace dp::core {

class JobRegistry;
struct Worker;

// The ranks of one generation on one worker, by local rank.
struct HostRanks {
  std::string address;
  std::vector<int> slots;
  std::vector<int> ports;
};

struct AssignedRank {
  RankKey key;
  int world_size = 0;
  int local_rank = 0;
  int slot = 0;
  bool stop = false;   // the job is being stopped: end the process
  std::string spec;    // JobSpec::payload
  int store_port = 0;  // of its generation's TCPStore endpoint; 0: none
  // The places of all ranks of the generation, in order of rank. Empty if a world lists them.
  std::vector<HostRanks> hosts = {};
  // The job's ranks are asked to save a checkpoint if they can, and to leave.
  bool hand_over = false;
  absl::Time submitted_at = absl::InfinitePast();  // of the job
  bool on_gpu = false;                             // all ranks of the generation train on GPUs
  std::string owner = {};                          // Job::owner
};

// The desired state of one worker: the ranks that it should run, by RankKey. A rank that is not
// listed is over.
struct Assignment {
  Revision version;
  std::vector<AssignedRank> ranks;
};

// The assignment that follows from the slots of `worker`, without the version.
Assignment AssignmentOf(const Worker& worker, const JobRegistry& jobs);

}  // namespace dp::core
