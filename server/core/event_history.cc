#include "server/core/event_history.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace dp::core {

EventHistory::EventHistory(Contents contents)
    : last_(contents.last), events_(std::move(contents.events)) {
  for (const auto& [number, event] : events_) {
    if (event.job.valid()) of_job_[event.job].push_back(number);
  }
}

void EventHistory::Add(Event event) {
  event.number = ++last_;
  if (event.job.valid()) {
    std::deque<uint64_t>& numbers = of_job_[event.job];
    numbers.push_back(event.number);
    if (numbers.size() > kOfJobMax) {
      events_.erase(numbers.front());
      numbers.pop_front();
    }
  }
  events_.emplace(event.number, std::move(event));
  if (events_.size() > kEventsMax) Drop(oldest());
}

// The oldest event of all is also the oldest of its job.
void EventHistory::Drop(uint64_t number) {
  const auto it = events_.find(number);
  if (const auto of = of_job_.find(it->second.job); of != of_job_.end()) {
    DP_CHECK(of->second.front() == number);
    of->second.pop_front();
    if (of->second.empty()) of_job_.erase(of);
  }
  events_.erase(it);
}

void EventHistory::Forget(JobId job) {
  const auto of = of_job_.find(job);
  if (of == of_job_.end()) return;
  for (const uint64_t number : of->second) events_.erase(number);
  of_job_.erase(of);
}

std::vector<const Event*> EventHistory::After(uint64_t since, JobId job, size_t limit) const {
  std::vector<const Event*> found;
  if (!job.valid()) {
    for (auto it = events_.upper_bound(since); it != events_.end() && found.size() < limit; ++it) {
      found.push_back(&it->second);
    }
    return found;
  }
  const auto of = of_job_.find(job);
  if (of == of_job_.end()) return found;
  auto it = std::upper_bound(of->second.begin(), of->second.end(), since);
  for (; it != of->second.end() && found.size() < limit; ++it) found.push_back(&events_.at(*it));
  return found;
}

}  // namespace dp::core
