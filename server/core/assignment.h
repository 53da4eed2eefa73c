#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "server/core/command.h"

namespace dp::core {

class JobRegistry;
struct Worker;

// The ranks of one generation on one worker. Their local rank is the index here.
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
  // Where all ranks of the generation are, in order of rank; none where a world tells them.
  std::vector<HostRanks> hosts = {};
  // Its job is asked to save a checkpoint where it can, and to leave.
  bool hand_over = false;
  absl::Time submitted_at = absl::InfinitePast();  // the job
  bool on_gpu = false;                             // all ranks of the generation train on GPUs
};

// The desired state of one worker: what it should run, by RankKey. A rank that is not listed is
// over.
struct Assignment {
  Revision version;
  std::vector<AssignedRank> ranks;
};

// What the slots of `worker` say, without the version.
Assignment AssignmentOf(const Worker& worker, const JobRegistry& jobs);

}  // namespace dp::core
