#include "server/policy/limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dp::core {
namespace {

Limit Of(const std::string& name, const std::map<std::string, Limit>& named,
         const std::optional<Limit>& each) {
  const auto it = named.find(name);
  return it != named.end() ? it->second : each.value_or(Limit{});
}

Use UseOf(const std::string& name, const std::map<std::string, Use>& uses) {
  const auto it = uses.find(name);
  return it == uses.end() ? Use{} : it->second;
}

void AddReached(const std::string& who, const Limit& limit, const Use& use, int slots,
                std::vector<LimitLedger::Reached>& reached) {
  const std::vector<JobId> jobs(use.jobs.begin(), use.jobs.end());
  if (slots > limit.slots - use.slots) {
    reached.push_back({absl::StrCat(who, " has ", use.slots, " of ", limit.slots, " slots"), jobs,
                       slots > limit.slots});
  }
  if (static_cast<int>(use.jobs.size()) >= limit.jobs) {
    reached.push_back(
        {absl::StrCat(who, " has ", use.jobs.size(), " of ", limit.jobs, " jobs running"), jobs,
         limit.jobs == 0});
  }
}

}  // namespace

Limit Limits::OfUser(const std::string& user) const { return Of(user, users, each_user); }

Limit Limits::OfQueue(const std::string& queue) const { return Of(queue, queues, each_queue); }

absl::Status Limits::CheckUnfinished(const std::string& user, size_t unfinished) const {
  const auto limit = static_cast<size_t>(OfUser(user).unfinished);
  if (unfinished < limit) return absl::OkStatus();
  const std::string who = user.empty() ? "users without a name" : absl::StrCat("user ", user);
  return absl::ResourceExhaustedError(absl::StrCat(
      who, user.empty() ? " have " : " has ", unfinished, " unfinished jobs, and the limit is ",
      limit, "; cancel some, wait until some are over, or have 'unfinished' raised in the file of ",
      "dp-coordinator --limits"));
}

void LimitLedger::Add(const std::string& user, const std::string& queue, JobId job, int slots) {
  for (Use* use : {&users_[user], &queues_[queue]}) {
    use->slots += slots;
    use->jobs.insert(job);
  }
}

std::vector<LimitLedger::Reached> LimitLedger::ReachedBy(const std::string& user,
                                                         const std::string& queue,
                                                         int slots) const {
  std::vector<Reached> reached;
  AddReached(user.empty() ? "who gave no name" : absl::StrCat("user ", user), limits_.OfUser(user),
             UseOf(user, users_), slots, reached);
  AddReached(absl::StrCat("queue ", queue), limits_.OfQueue(queue), UseOf(queue, queues_), slots,
             reached);
  return reached;
}

int LimitLedger::Room(const std::string& user, const std::string& queue) const {
  return std::min(limits_.OfUser(user).slots - UseOf(user, users_).slots,
                  limits_.OfQueue(queue).slots - UseOf(queue, queues_).slots);
}

}  // namespace dp::core
