#include "server/core/store_ports.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "server/core/digest.h"

namespace dp::core {
namespace {

// Nobody tells when another program gives a port back.
constexpr absl::Duration kLookAgain = absl::Seconds(1);

}  // namespace

StorePorts::StorePorts(std::map<int, Use> uses) : uses_(std::move(uses)) {
  // Does not compile with another member: it is an argument then, and a part of snapshots.
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

void StorePorts::AddTo(Digest& digest) const {
  digest.Add(uses_.size());
  for (const auto& [port, use] : uses_) {
    digest.Add(static_cast<uint64_t>(port)).Add(use.holder).Add(use.free_since);
  }
}

std::optional<int> PortSupply::Take(JobId job) {
  for (; next_ <= range_.last; ++next_) {
    if (!rested(next_)) continue;
    if (!range_.usable || range_.usable(job, next_)) return next_++;
    unusable_ = true;
  }
  return std::nullopt;
}

bool PortSupply::rested(int port) const {
  const auto it = ports_.uses().find(port);
  if (it == ports_.uses().end()) return true;
  return !it->second.holder.valid() && it->second.free_since + range_.rest <= now_;
}

absl::Time PortSupply::next_at() const {
  absl::Time next = unusable_ ? now_ + kLookAgain : absl::InfiniteFuture();
  for (const auto& [port, use] : ports_.uses()) {
    if (port < range_.first || port > range_.last || use.holder.valid()) continue;
    const absl::Time rested = use.free_since + range_.rest;
    if (rested > now_) next = std::min(next, rested);
  }
  return next;
}

}  // namespace dp::core
