#include "server/core/store_ports.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace dp::core {
namespace {

// Nothing reports that another program has given a port back, so the plan looks again.
constexpr absl::Duration kLookAgain = absl::Seconds(1);

}  // namespace

StorePorts::StorePorts(std::map<int, Use> uses) : uses_(std::move(uses)) {
  // Does not compile if a member is added: it must become an argument and a part of snapshots.
  [[maybe_unused]] const auto& [a] = *this;
}

void StorePorts::Take(int port, JobId job) {
  DP_CHECK(!held(port));
  uses_[port] = {.holder = job};
}

void StorePorts::Release(int port, JobId job, absl::Time at) {
  DP_CHECK(held(port) && uses_[port].holder == job);
  uses_[port] = {.holder = {}, .free_since = at};
}

bool StorePorts::held(int port) const {
  const auto it = uses_.find(port);
  return it != uses_.end() && it->second.holder.valid();
}

PortSupply::PortSupply(const StorePorts& ports, const StorePortRange& range, absl::Time now)
    : ports_(ports), range_(range), now_(now), next_(range.first) {
  for (const auto& [port, use] : ports_.uses()) {
    if (port < range_.first || port > range_.last || use.holder.valid() || rested(port)) continue;
    resting_.emplace(use.free_since, port);
  }
}

std::optional<int> PortSupply::Take(JobId job) {
  const std::optional<int> rested = TakeRested(job);
  return rested.has_value() ? rested : TakeResting(job);
}

std::optional<int> PortSupply::TakeRested(JobId job) {
  for (; next_ <= range_.last; ++next_) {
    if (rested(next_) && Usable(job, next_)) return next_++;
  }
  return std::nullopt;
}

std::optional<int> PortSupply::TakeResting(JobId job) {
  while (!resting_.empty() && resting_.begin()->first + range_.least_rest() <= now_) {
    const int port = resting_.extract(resting_.begin()).value().second;
    if (Usable(job, port)) return port;
  }
  return std::nullopt;
}

bool PortSupply::Usable(JobId job, int port) {
  const bool usable = !range_.usable || range_.usable(job, port);
  unusable_ |= !usable;
  return usable;
}

bool PortSupply::rested(int port) const {
  const auto it = ports_.uses().find(port);
  if (it == ports_.uses().end()) return true;
  return !it->second.holder.valid() && it->second.free_since + range_.rest <= now_;
}

absl::Time PortSupply::next_at() const {
  const absl::Time next = unusable_ ? now_ + kLookAgain : absl::InfiniteFuture();
  if (resting_.empty()) return next;
  return std::min(next, resting_.begin()->first + range_.least_rest());
}

}  // namespace dp::core
