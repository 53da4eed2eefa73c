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

// Whether a World lists its members. A list for each of n ranks is n * n entries in all.
enum class MemberTable { kWhole, kNone };

// A job's world as its ranks see it.
struct World {
  Revision version;
  Generation generation;  // not valid before the first placement
  WorldState state = WorldState::kForming;
  int size = 0;
  std::vector<Member> members;  // those that have joined, by rank; empty with MemberTable::kNone
  std::string reason;           // why it is not sealed, or why it was closed
  std::string handover;         // why its ranks are asked to save and leave; empty if they are not
};

// The world of a job, without the version.
World WorldOf(const Job& job, MemberTable table = MemberTable::kWhole);

// A rank of the current generation as its peers see it, whether or not it has joined.
Member MemberOf(const Job& job, int rank);

// Whether a rank of `generation` can act on the job's world: the world is sealed or closed, or a
// later generation has begun. A rank in a forming world ignores the joins of its peers.
bool ConcernsItsRanks(const Job& job, Generation generation);

}  // namespace dp::core
