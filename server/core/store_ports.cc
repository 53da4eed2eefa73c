#include "server/core/store_ports.h"

#include <algorithm>

#include "base/check.h"
#include "server/core/digest.h"

namespace dp::core {

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

std::optional<int> PortSupply::Take() {
  for (; next_ <= range_.last; ++next_) {
    const auto it = ports_.uses().find(next_);
    const bool fresh = it == ports_.uses().end();
    if (fresh || (!it->second.holder.valid() && it->second.free_since + range_.rest <= now_)) {
      return next_++;
    }
  }
  return std::nullopt;
}

absl::Time PortSupply::next_at() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [port, use] : ports_.uses()) {
    if (port < range_.first || port > range_.last || use.holder.valid()) continue;
    const absl::Time rested = use.free_since + range_.rest;
    if (rested > now_) next = std::min(next, rested);
  }
  return next;
}

}  // namespace dp::core
