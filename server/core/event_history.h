#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"

namespace dp::core {

class Digest;

// Something that happened to a job or a worker, for people.
struct Event {
  uint64_t number = 0;  // counts all from 1
  absl::Time at = {};
  JobId job = {};           // not valid: it is about a worker
  std::string worker = {};  // empty: it is about a job
  std::string kind = {};    // one word
  std::string text = {};
};

// What happened last, of each job and in all. It follows from the commands, so it needs no place in
// the journal of its own. Not thread-safe; owned by the Coordinator.
class EventHistory {
 public:
  // In all: a thousand jobs with a restart or two.
  static constexpr size_t kEventsMax = 10'000;
  // Of one job, so that one that is restarted for ever does not push out the others.
  static constexpr size_t kOfJobMax = 100;

  // What it can be made of again.
  struct Contents {
    uint64_t last = 0;
    std::map<uint64_t, Event> events;  // by number
  };

  EventHistory() = default;
  explicit EventHistory(Contents contents);

  // The number is given here.
  void Add(Event event);
  // The events of a job go with its record.
  void Forget(JobId job);

  // Those with a number above `since`, of one job or, where it is not valid, all; the oldest first,
  // at most `limit`.
  std::vector<const Event*> After(uint64_t since, JobId job, size_t limit) const;
  uint64_t last() const { return last_; }
  // By number.
  const std::map<uint64_t, Event>& events() const { return events_; }
  uint64_t oldest() const { return events_.empty() ? 0 : events_.begin()->first; }
  void AddTo(Digest& digest) const;

 private:
  void Drop(uint64_t number);

  uint64_t last_ = 0;
  std::map<uint64_t, Event> events_;
  std::map<JobId, std::deque<uint64_t>> of_job_;
};

}  // namespace dp::core
