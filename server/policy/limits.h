#pragma once

#include <climits>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/id.h"

namespace dp::core {

// How much one user, or one queue, may hold at a time.
struct Limit {
  // A tenth of all that may be unfinished (JobRegistry::kUnfinishedMax): no one user fills the
  // queue.
  static constexpr int kUnfinishedDefault = 1'000;

  int slots = INT_MAX;
  int jobs = INT_MAX;                   // jobs that hold slots
  int unfinished = kUnfinishedDefault;  // jobs that are not over; of users only

  bool operator==(const Limit&) const = default;
};

// The limits of users and queues. The placement and the admission of jobs use them, and the machine
// does not: a journal replays under any limits.
struct Limits {
  // The limits of those that are not named; none: no limit.
  std::optional<Limit> each_user;
  std::optional<Limit> each_queue;
  std::map<std::string, Limit> users;
  std::map<std::string, Limit> queues;

  Limit OfUser(const std::string& user) const;
  Limit OfQueue(const std::string& queue) const;
  // Whether a user with so many unfinished jobs may submit another.
  // Errors: ResourceExhausted names the user, the number, the limit and the remedy.
  absl::Status CheckUnfinished(const std::string& user, size_t unfinished) const;
};

// How much a user or queue holds.
struct Use {
  int slots = 0;
  std::set<JobId> jobs;
};

// Counts what users and queues hold while a plan is made. Not thread-safe.
class LimitLedger {
 public:
  explicit LimitLedger(const Limits& limits) : limits_(limits) {}

  void Add(const std::string& user, const std::string& queue, JobId job, int slots);

  // A limit that keeps a job of `slots` slots waiting.
  struct Reached {
    std::string what;  // "user alice has 8 of 8 slots"
    std::vector<JobId> jobs;
    bool never = false;  // the job alone exceeds the limit
  };
  std::vector<Reached> ReachedBy(const std::string& user, const std::string& queue,
                                 int slots) const;
  // How many slots a job of this user and queue may take now.
  int Room(const std::string& user, const std::string& queue) const;

 private:
  const Limits& limits_;
  std::map<std::string, Use> users_;
  std::map<std::string, Use> queues_;
};

}  // namespace dp::core
