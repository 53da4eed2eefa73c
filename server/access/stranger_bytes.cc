#include "server/access/stranger_bytes.h"

#include <algorithm>

namespace dp::server {
namespace {

constexpr absl::Duration kMakeRoomEvery = absl::Seconds(1);

}  // namespace

void StrangerBytes::Add(absl::string_view host, uint64_t bytes, absl::Time now) {
  if (full() && !full_at_.contains(host)) MakeRoom(now);
  const bool remembered = !full() || full_at_.contains(host);
  absl::Time& full_at = remembered ? full_at_[host] : others_full_at_;
  const absl::Time latest = now + absl::Seconds(limits_.at_once / limits_.per_second);
  full_at = std::min(std::max(full_at, now) + TimeFor(bytes), latest + limits_.owes_max);
}

void StrangerBytes::GiveBack(absl::string_view host, uint64_t bytes, absl::Time now) {
  const auto known = full_at_.find(host);
  if (known == full_at_.end()) return;
  known->second -= TimeFor(bytes);
  if (known->second <= now) full_at_.erase(known);
}

void StrangerBytes::HoldBack(absl::string_view host, absl::Time now) {
  if (full() && !full_at_.contains(host)) return;  // it shares the rate of many others
  full_at_[host] = now + absl::Seconds(limits_.at_once / limits_.per_second) + limits_.owes_max;
}

absl::Time StrangerBytes::owes_until(absl::string_view host) const {
  const auto known = full_at_.find(host);
  if (known == full_at_.end() && !full()) return absl::InfinitePast();
  const absl::Time full_at = known == full_at_.end() ? others_full_at_ : known->second;
  return full_at - absl::Seconds(limits_.at_once / limits_.per_second);
}

absl::Duration StrangerBytes::TimeFor(uint64_t bytes) const {
  return absl::Seconds(static_cast<double>(bytes) / limits_.per_second);
}

// Hosts that have all of their bytes again need not be remembered. Looking at all takes a while.
void StrangerBytes::MakeRoom(absl::Time now) {
  if (now - made_room_at_ < kMakeRoomEvery) return;
  made_room_at_ = now;
  absl::erase_if(full_at_, [now](const auto& host) { return host.second <= now; });
}

}  // namespace dp::server
