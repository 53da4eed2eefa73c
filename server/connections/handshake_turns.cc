#include "server/connections/handshake_turns.h"

#include <algorithm>
#include <utility>

namespace dp::server {

bool HandshakeTurns::Add(const std::string& host, int connection, absl::Time now) {
  if (waiting_ >= limits_.all) return false;
  auto it = by_name_.find(host);
  if (it == by_name_.end()) {
    it = by_name_.emplace(host, turns_.insert(turns_.end(), Host{host, {}})).first;
  }
  std::deque<Waiting>& waiting = it->second->waiting;
  if (waiting.size() >= limits_.of_host) return false;
  waiting.push_back({connection, now});
  ++waiting_;
  return true;
}

std::optional<int> HandshakeTurns::Take(
    absl::Time now, absl::FunctionRef<bool(const std::string& host)> may_begin) {
  Refill(now);
  if (left_ < 1) return std::nullopt;
  const auto host = std::find_if(turns_.begin(), turns_.end(),
                                 [&](const Host& each) { return may_begin(each.name); });
  if (host == turns_.end()) return std::nullopt;
  left_ -= 1;
  --waiting_;
  const int connection = host->waiting.front().connection;
  host->waiting.pop_front();
  if (host->waiting.empty()) {
    by_name_.erase(host->name);
    turns_.erase(host);
  } else {
    turns_.splice(turns_.end(), turns_, host);  // the others are next
  }
  return connection;
}

std::vector<int> HandshakeTurns::TakeOverdue(absl::Time now) {
  std::vector<int> overdue;
  for (auto host = turns_.begin(); host != turns_.end();) {
    std::deque<Waiting>& waiting = host->waiting;
    while (!waiting.empty() && now - waiting.front().since > limits_.patience) {
      overdue.push_back(waiting.front().connection);
      waiting.pop_front();
      --waiting_;
    }
    if (!waiting.empty()) {
      ++host;
      continue;
    }
    by_name_.erase(host->name);
    host = turns_.erase(host);
  }
  return overdue;
}

absl::Time HandshakeTurns::next_at(absl::Time now) const {
  return left_ >= 1 ? now : now + absl::Seconds((1 - left_) / limits_.per_second);
}

void HandshakeTurns::Refill(absl::Time now) {
  const double seconds = absl::ToDoubleSeconds(now - std::exchange(refilled_at_, now));
  left_ = std::min(limits_.at_once, left_ + std::max(seconds, 0.0) * limits_.per_second);
}

}  // namespace dp::server
