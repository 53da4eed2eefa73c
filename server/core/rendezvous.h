#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "base/id.h"

namespace dp::core {

enum class WorldState { kForming, kSealed, kClosed };

// The meeting of one generation's ranks. It forms while they join, is sealed when ranks 0..size-1
// have all joined, and is closed when the generation ends. A sealed world never forms again; a
// closed one never opens. Not thread-safe; part of a job.
class Rendezvous {
 public:
  Rendezvous() = default;
  explicit Rendezvous(int size);
  // Restores an earlier one from its own answers.
  Rendezvous(WorldState state, int size, std::set<int> members, std::string closing_reason);

  // Joins a rank; the last one seals the world. Returns whether anything changed: a repeated join
  // is a no-op. Errors: InvalidArgument no such rank; FailedPrecondition closed.
  absl::StatusOr<bool> Join(int rank);
  // Keeps the first reason.
  void Close(std::string reason);

  WorldState state() const { return state_; }
  int size() const { return size_; }
  bool joined(int rank) const { return joined_.count(rank) > 0; }
  // Each rank is in one of these.
  const std::set<int>& members() const { return joined_; }
  const std::set<int>& missing() const { return missing_; }
  // Why it was closed; empty before.
  const std::string& closing_reason() const { return reason_; }

 private:
  WorldState state_ = WorldState::kForming;
  int size_ = 0;
  std::set<int> joined_;
  std::set<int> missing_;  // kept, since each join asks for it and a world may have 10,000 ranks
  std::string reason_;
};

}  // namespace dp::core
