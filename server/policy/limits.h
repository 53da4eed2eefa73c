#pragma once

#include <climits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/id.h"

namespace dp::core {

// How much one user, or one queue, may hold at a time.
struct Limit {
  int slots = INT_MAX;
  int jobs = INT_MAX;  // jobs that hold slots

  bool operator==(const Limit&) const = default;
};

// The limits of users and queues. They belong to the placement: a journal replays under any limits.
struct Limits {
  // The limits of those that are not named; none: no limit.
  std::optional<Limit> each_user;
  std::optional<Limit> each_queue;
  std::map<std::string, Limit> users;
  std::map<std::string, Limit> queues;

  Limit OfUser(const std::string& user) const;
  Limit OfQueue(const std::string& queue) const;
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
