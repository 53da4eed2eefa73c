#pragma once

#include <string>
#include <vector>

#include "base/id.h"
#include "server/core/job.h"

namespace dp::core {

struct Member {
  int rank = 0;
  std::string worker;
  std::string host;
  std::string address;  // of the worker, as registered
};

// A job's world as its ranks see it.
struct World {
  Revision version;
  Generation generation;  // not valid before the first placement
  WorldState state = WorldState::kForming;
  int size = 0;
  std::vector<Member> members;  // those that have joined, by rank
  std::string reason;           // why it is not sealed, or why it was closed
  std::string handover;         // why its ranks are asked to save and leave; empty when not
};

// Without the version.
World WorldOf(const Job& job);

}  // namespace dp::core
