#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/field_list.h"
#include "base/id.h"

namespace dp::core {

// Something that happened to a job, a worker, or who may use the cluster; for people.
struct Event {
  uint64_t number = 0;  // counts all events from 1
  absl::Time at = {};
  JobId job = {};           // not valid: it is about a worker
  std::string worker = {};  // empty: it is about a job, or about access to the cluster
  std::string kind = {};    // one word
  std::string text = {};
  std::string actor = {};  // who caused it, as "user ann"; empty: nobody who had to say who it is
  std::string owner = {};  // of a job that left the record with this event

  using Fields = FieldList<&Event::number, &Event::at, &Event::job, &Event::worker, &Event::kind,
                           &Event::text, &Event::actor, &Event::owner>;
};

// The latest events, of each job and in all. The history follows from the commands, so the journal
// does not store it separately. Not thread-safe; owned by the Coordinator.
class EventHistory {
 public:
  // In all: enough for a thousand jobs with a restart or two.
  static constexpr size_t kEventsMax = 10'000;
  // For one job: a job that restarts for ever must not push out the others.
  static constexpr size_t kOfJobMax = 100;

  // All that the history can be rebuilt from.
  struct Contents {
    uint64_t last = 0;
    std::map<uint64_t, Event> events;  // by number
  };

  EventHistory() = default;
  explicit EventHistory(Contents contents);

  // Assigns the event's number.
  void Add(Event event);
  // Drops the events of a job that leaves the record.
  void Forget(JobId job);

  // The events with a number above `since`, oldest first, at most `limit`. If `job` is valid, only
  // those of the job.
  std::vector<const Event*> After(uint64_t since, JobId job, size_t limit) const;
  uint64_t last() const { return last_; }
  // By number.
  const std::map<uint64_t, Event>& events() const { return events_; }
  uint64_t oldest() const { return events_.empty() ? 0 : events_.begin()->first; }

 private:
  void Drop(uint64_t number);

  uint64_t last_ = 0;
  std::map<uint64_t, Event> events_;
  std::map<JobId, std::deque<uint64_t>> of_job_;
};

}  // namespace dp::core
